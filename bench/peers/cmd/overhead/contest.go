package main

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
)

// site is where contenders do their work: databases of their own on both servers, and the coordinator
// of a place, or the connections of a program without one.
type site struct {
	*pools
	coordinator coordinator // nil without one

	txmgr  *txmgr        // with a coordinator
	manual *manualCommit // without
	outbox *outbox       // without
}

// contest is the servers and the sites of all contenders.
type contest struct {
	databases
	sites   map[place]*site
	closers []io.Closer // in the order of opening
}

// closing lets a method be an io.Closer.
type closing func() error

func (c closing) Close() error { return c() }

// startContest starts what the contenders need. It returns what it has started even if it fails.
func startContest(ctx context.Context, dir string, o options) (f *contest, err error) {
	f = &contest{sites: make(map[place]*site)}
	places := make(map[place]bool)
	for _, c := range o.contenders {
		places[c.Place] = true
	}
	var program string
	if places[process] || places[cluster] {
		progressf("building txmgr")
		if program, err = rig.BuildTxmgr(ctx, dir); err != nil {
			return f, err
		}
	}
	progressf("starting the databases")
	f.databases, err = startDatabases(ctx, dir, 200)
	f.closers = append(f.closers, closing(f.databases.close))
	if err != nil {
		return f, err
	}
	for _, p := range []place{nowhere, process, embedded, cluster} {
		if !places[p] {
			continue
		}
		progressf("starting the coordinator: %s", p)
		if err := f.addSite(ctx, p, dir, program, slices.Max(o.workers)); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (f *contest) addSite(ctx context.Context, where place, dir, program string, workers int) error {
	name := "site_" + string(where)
	p, err := f.databases.open(ctx, name, workers+2) // two more: the outbox's relay, and this program itself
	f.closers = append(f.closers, closing(p.close))
	if err != nil {
		return err
	}
	s := &site{pools: p}
	f.sites[where] = s
	if where == nowhere {
		return f.addManual(ctx, s, workers)
	}
	s.coordinator, err = startCoordinator(ctx, where, dir, program)
	if s.coordinator != nil {
		f.closers = append(f.closers, s.coordinator)
	}
	if err != nil {
		return err
	}
	s.txmgr = newTxmgr(s.coordinator, p)
	return register(ctx, s.coordinator, p)
}

func (f *contest) addManual(ctx context.Context, s *site, workers int) (err error) {
	if s.manual, err = newManualCommit(ctx, s.pools, workers); err != nil {
		return err
	}
	f.closers = append(f.closers, closing(s.manual.close))
	if s.outbox, err = newOutbox(ctx, s.pools, s.manual); err != nil {
		return err
	}
	return createMarkers(ctx, s.pools)
}

// close closes everything, in reverse order.
func (f *contest) close() error {
	var errs []error
	for _, c := range slices.Backward(f.closers) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
