package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
)

// The goal: the time of rollbacks beside a participant that hangs, divided by the time without it.
const goalHung = 1.2

// hungReport is the result of a run with -hung.
type hungReport struct {
	Condition rig.Condition `json:"condition"`
	Due       int           `json:"due"`
	Cases     []*hungCase   `json:"cases"`
}

// hungCase is one combination, in all rounds.
type hungCase struct {
	Name string `json:"name"`
	// Others is how many transactions of the hung participant alone expire at the same time; with
	// Same the transactions of PostgreSQL have a branch there, too.
	Others int          `json:"others"`
	Same   bool         `json:"same"`
	Rounds []expiration `json:"rounds"`
}

// expiration is what was measured for one set of transactions.
type expiration struct {
	Span       time.Duration `json:"span_ns"`      // from the deadline until nothing is prepared at PostgreSQL
	First      time.Duration `json:"first_ns"`     // until the first branch was rolled back
	Most       time.Duration `json:"most_ns"`      // until 99 of 100 were
	Completing int           `json:"completing"`   // transactions that wait for the hung participant then
	Conns      int           `json:"calls"`        // connections that it had accepted until then
	Coord      time.Duration `json:"cpu_ns"`       // of the coordinator, from the deadline on
	Postgres   time.Duration `json:"pg_cpu_ns"`    // of PostgreSQL, likewise
	Prepared   int           `json:"prepared"`     // at the deadline
	Making     time.Duration `json:"preparing_ns"` // how long it took to prepare them
}

func measureHung(ctx context.Context, o options) (err error) {
	dir, err := scratch(o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := hungReport{Condition: rig.RecordCondition(dir).Named("go -C bench/peers run ./cmd/overhead"), Due: o.due, Cases: []*hungCase{
		{Name: "alone"},
		{Name: "beside as many of a participant that hangs", Others: o.due},
		{Name: "with a branch each at one that hangs", Same: true},
	}}
	progressf("building txmgr")
	program, err := rig.BuildTxmgr(ctx, dir)
	if err != nil {
		return err
	}
	d, err := startDatabases(ctx, dir, o.due+100)
	defer func() { err = errors.Join(err, d.close()) }()
	if err != nil {
		return err
	}
	if err := d.pg.CreateDatabase(ctx, bankName); err != nil {
		return err
	}
	for n := range o.rounds {
		for _, i := range rand.Perm(len(r.Cases)) {
			c := r.Cases[i]
			b := expiringSet{program: program, dir: filepath.Join(dir, fmt.Sprintf("hung-%d-%d", n, i)), databases: d, due: o.due, lead: o.lead, hungCase: c}
			e, err := b.run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
			progressf("round %d of %d: %-43s %d rolled back %v after the deadline (99 of 100: %v), %d calls hung; prepared in %v", n+1, o.rounds, c.Name,
				e.Prepared, e.Span.Round(time.Millisecond), e.Most.Round(time.Millisecond), e.Conns, e.Making.Round(time.Millisecond))
			c.Rounds = append(c.Rounds, e)
		}
	}
	r.Condition.End()
	if err := writeJSON(o.json, r); err != nil {
		return err
	}
	return r.print(os.Stdout)
}
