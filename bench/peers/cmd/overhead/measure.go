package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
)

// measure compares the ways, and prints the result.
func measure(ctx context.Context, o options) (err error) {
	dir, err := scratch(o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := report{Condition: rig.RecordCondition(dir).Named("go -C bench/peers run ./cmd/overhead")}
	f, err := startContest(ctx, dir, o)
	defer func() { err = errors.Join(err, f.close()) }()
	if err != nil {
		return err
	}
	if err := r.measure(ctx, f, dir, o); err != nil {
		return err
	}
	for _, p := range f.pools {
		n, err := p.moved(ctx)
		if err != nil {
			return err
		}
		r.Moved = append(r.Moved, fmt.Sprintf("%s %d", p.name, n))
	}
	r.Condition.End()
	return r.print(os.Stdout, o.output)
}

// scratch creates a directory that the databases' accounts can reach, too.
func scratch(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, "txmgr-overhead-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	return dir, err
}

// row is one contender with one number of workers, in all rounds.
type row struct {
	*contender
	Workers int     `json:"workers"`
	Rounds  []round `json:"rounds"`
}

// round is one measurement of a contender. All figures but the sample are per transaction.
type round struct {
	rig.Sample
	Mean time.Duration `json:"mean_ns"` // workers by throughput
	CPU  usage         `json:"cpu"`
	// Waited is the part of a transaction's time that each call of the coordinator takes, Calls the
	// number of all calls.
	Waited map[string]time.Duration `json:"waited_ns,omitempty"`
	// Entries and Syncs are the log entries of the coordinator and the syncs of the disk for them.
	Entries float64 `json:"entries,omitempty"`
	Syncs   float64 `json:"syncs,omitempty"`
}

// usage is processor time.
type usage struct {
	Client      time.Duration `json:"client_ns"` // with an embedded coordinator
	Coordinator time.Duration `json:"coordinator_ns"`
	PostgreSQL  time.Duration `json:"postgresql_ns"`
	MariaDB     time.Duration `json:"mariadb_ns"`
}

func (u usage) all() time.Duration { return u.Client + u.Coordinator + u.PostgreSQL + u.MariaDB }

func (r *report) measure(ctx context.Context, f *contest, dir string, o options) error {
	for _, c := range f.contenders {
		for _, w := range o.workers {
			r.Rows = append(r.Rows, &row{contender: c, Workers: w})
		}
	}
	span := time.Duration(o.seconds * float64(time.Second))
	for n := range o.rounds {
		flush, err := rig.Flushes(dir, 300)
		if err != nil {
			return err
		}
		r.Flushes = append(r.Flushes, flush)
		progressf("round %d of %d: the disk makes a page durable in: %v", n+1, o.rounds, flush)
		// A new order each round, so that no contender always follows the same one.
		for _, i := range rand.Perm(len(r.Rows)) {
			row := r.Rows[i]
			if err := f.awaitPruned(ctx); err != nil {
				return err
			}
			m, err := row.round(ctx, f, span)
			if err != nil {
				return fmt.Errorf("%s, %d workers: %w", row.Name, row.Workers, err)
			}
			progressf("round %d of %d: %-28s %2d workers: %6.0f tx/s, %v", n+1, o.rounds, row.Name, row.Workers, m.PerSecond, m.Latencies)
			row.Rounds = append(row.Rounds, m)
		}
	}
	return nil
}

// reading is the state of all meters at one moment.
type reading struct {
	usage
	spent          spent
	entries, syncs uint64
}

func (r *row) read(ctx context.Context, f *contest) (m reading, err error) {
	var errs [4]error
	m.Client, errs[0] = rig.OwnCPU()
	m.PostgreSQL, m.MariaDB, errs[1] = f.cpu()
	if r.server != nil {
		m.Coordinator, errs[2] = r.server.CPU()
	}
	if r.m != nil {
		m.spent = r.m.read()
		s, err := r.m.Admin().Status(ctx)
		m.entries, m.syncs, errs[3] = s.Entries, uint64(s.Syncs), err
	}
	return m, errors.Join(errs[:]...)
}

func (r *row) round(ctx context.Context, f *contest, span time.Duration) (m round, err error) {
	var at [2]reading
	var failed error
	n := 0
	meter := func() {
		var err error
		at[n], err = r.read(ctx, f)
		failed = errors.Join(failed, err)
		n++
	}
	m.Sample, err = rig.Load{Callers: r.Workers, Warm: span / 5, Span: span, Pair: r.pair, Meter: meter}.Run(ctx)
	if err = errors.Join(err, failed); err != nil {
		return m, err
	}
	each := func(before, after time.Duration) time.Duration { return (after - before) / time.Duration(m.Pairs) }
	m.Mean = time.Duration(float64(r.Workers) / m.PerSecond * float64(time.Second))
	m.CPU = usage{
		Client: each(at[0].Client, at[1].Client), Coordinator: each(at[0].Coordinator, at[1].Coordinator),
		PostgreSQL: each(at[0].PostgreSQL, at[1].PostgreSQL), MariaDB: each(at[0].MariaDB, at[1].MariaDB),
	}
	if r.m != nil {
		m.Waited = map[string]time.Duration{}
		for i, name := range callNames {
			m.Waited[name] = each(at[0].spent[i], at[1].spent[i])
		}
		m.Entries = float64(at[1].entries-at[0].entries) / float64(m.Pairs)
		m.Syncs = float64(at[1].syncs-at[0].syncs) / float64(m.Pairs)
	}
	return m, nil
}
