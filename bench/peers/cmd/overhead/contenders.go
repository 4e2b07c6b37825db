package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
)

// The ways to do the work.
const (
	manualWay         = "hand"
	manualParallelWay = "hand-at-once"
	serverWay         = "server"
	embeddedWay       = "embedded"

	pgWay         = "pg"
	pgServerWay   = "pg-server"
	pgEmbeddedWay = "pg-embedded"

	myWay         = "mariadb"
	myServerWay   = "mariadb-server"
	myEmbeddedWay = "mariadb-embedded"
)

// ways lists the names of the ways, and what each is compared with. A way without beside is one of
// those that others are compared with.
var ways = []struct{ key, name, beside string }{
	{manualWay, "by hand, one after the other", ""},
	{manualParallelWay, "by hand, both at once", manualWay},
	{serverWay, "txmgr server", manualWay},
	{embeddedWay, "txmgr embedded", manualWay},
	{pgWay, "PostgreSQL, plain COMMIT", ""},
	{pgServerWay, "PostgreSQL, txmgr server", pgWay},
	{pgEmbeddedWay, "PostgreSQL, txmgr embedded", pgWay},
	{myWay, "MariaDB, plain COMMIT", ""},
	{myServerWay, "MariaDB, txmgr server", myWay},
	{myEmbeddedWay, "MariaDB, txmgr embedded", myWay},
}

func keys() (out []string) {
	for _, w := range ways {
		out = append(out, w.key)
	}
	return out
}

// contender is one of the ways, with what it needs.
type contender struct {
	Key  string `json:"key"`
	Name string `json:"name"`

	beside string
	pair   func(ctx context.Context, worker int) error
	m      *timed       // nil without a coordinator
	server *rig.Process // nil unless the coordinator is a process
}

// contest is all contenders, and what they share.
type contest struct {
	databases
	contenders []*contender
	pools      []*pools
	closers    []io.Closer // in the order of opening
}

// closing lets a method be an io.Closer.
type closing func() error

func (c closing) Close() error { return c() }

// startContest starts databases and coordinators. It returns what it has started even if it fails.
func startContest(ctx context.Context, dir string, o options) (f *contest, err error) {
	f = new(contest)
	for _, k := range o.only {
		if !slices.Contains(keys(), k) {
			return f, fmt.Errorf("-only %s: want some of %s", k, strings.Join(keys(), ", "))
		}
	}
	progressf("building txmgr")
	program, err := build(ctx, dir)
	if err != nil {
		return f, err
	}
	progressf("starting the databases")
	f.databases, err = startDatabases(ctx, dir, 200)
	f.closers = append(f.closers, closing(f.databases.close))
	if err != nil {
		return f, err
	}
	workers := slices.Max(o.workers)
	for _, add := range []func() error{
		func() error { return f.addManual(ctx, workers) },
		func() error {
			s, err := serve(ctx, program, filepath.Join(dir, "server"))
			if err != nil {
				return err
			}
			f.closers = append(f.closers, s)
			return f.addManaged(ctx, "server", s, s.process, workers, serverWay, pgServerWay, myServerWay)
		},
		func() error {
			n, err := embed(ctx, filepath.Join(dir, "embedded"))
			if err != nil {
				return err
			}
			f.closers = append(f.closers, n)
			return f.addManaged(ctx, "embedded", n, nil, workers, embeddedWay, pgEmbeddedWay, myEmbeddedWay)
		},
	} {
		if err := add(); err != nil {
			return f, err
		}
	}
	f.contenders = slices.DeleteFunc(f.contenders, func(c *contender) bool { return len(o.only) > 0 && !slices.Contains(o.only, c.Key) })
	return f, nil
}

func (f *contest) open(ctx context.Context, name string, workers int) (*pools, error) {
	p, err := f.databases.open(ctx, name, workers+1) // one more for this program itself
	f.closers = append(f.closers, closing(p.close))
	f.pools = append(f.pools, p)
	return p, err
}

func (f *contest) addManual(ctx context.Context, workers int) error {
	p, err := f.open(ctx, "hand", workers)
	if err != nil {
		return err
	}
	h, err := newManualCommit(ctx, p, workers)
	if err != nil {
		return err
	}
	f.closers = append(f.closers, closing(h.close))
	f.add(manualWay, &contender{pair: h.sequential})
	f.add(manualParallelWay, &contender{pair: h.parallel})
	f.add(pgWay, &contender{pair: h.plainPG})
	f.add(myWay, &contender{pair: h.plainMy})
	return nil
}

func (f *contest) addManaged(ctx context.Context, name string, m manager, p *rig.Process, workers int, pair, pg, my string) error {
	own, err := f.open(ctx, name, workers)
	if err != nil {
		return err
	}
	if err := register(ctx, m, own); err != nil {
		return err
	}
	a := newManaged(m, own)
	f.add(pair, &contender{pair: a.pair, m: a.m, server: p})
	f.add(pg, &contender{pair: a.onlyPG, m: a.m, server: p})
	f.add(my, &contender{pair: a.onlyMy, m: a.m, server: p})
	return nil
}

func (f *contest) add(key string, c *contender) {
	for _, w := range ways {
		if w.key == key {
			c.Key, c.Name, c.beside = key, w.name, w.beside
		}
	}
	f.contenders = append(f.contenders, c)
}

// awaitPruned waits until the coordinators have pruned the marker rows of their transactions in
// MariaDB, so that no later contender pays for it.
func (f *contest) awaitPruned(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for _, p := range f.pools {
		for left := true; left; {
			err := p.my.QueryRowContext(ctx, "SELECT EXISTS(SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'txmgr_branch')").Scan(&left)
			if err == nil && left {
				err = p.my.QueryRowContext(ctx, "SELECT EXISTS(SELECT 1 FROM txmgr_branch)").Scan(&left)
			}
			if err != nil {
				return fmt.Errorf("wait for rows of proof to be cleared away in database %s: %w", p.name, err)
			}
			if left {
				<-tick.C
			}
		}
	}
	return nil
}

// close closes everything, in reverse order.
func (f *contest) close() error {
	var errs []error
	for _, c := range slices.Backward(f.closers) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
