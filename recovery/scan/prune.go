package scan

import (
	"context"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery/call"
	"github.com/txmgr/txmgr/recovery/plan"
)

// pruneLimit is how many commit records one call removes.
const pruneLimit = 10_000

// Prune makes one call to remove commit records of ended branches, where the participant is a
// [participant.Pruner], and reports whether there may be more of them. busy reports for which
// branches a call is under way, or its result still to be recorded; it is asked after the log.
// An error wraps [ErrListPrepared] when the participant cannot be opened.
func (s *Scanner) Prune(ctx context.Context, name string, busy func([]plan.Key) []bool) (more bool, err error) {
	p, err := s.open(ctx, name)
	if err != nil {
		return false, err
	}
	pruner, ok := p.(participant.Pruner)
	if !ok {
		return false, nil
	}
	defer call.RecoverPanic(&err)
	removed, err := pruner.Prune(ctx, pruneLimit, func(ctx context.Context, xids []string) ([]bool, error) {
		return s.obsolete(ctx, xids, busy)
	})
	return err == nil && removed >= pruneLimit, err
}

// obsolete reports for which branches the participant's commit record will never be needed
// again: see invariant 8 of package recovery. The record of a transaction that the log does not know may be needed
// by a begin that is still on its way and appoints the branch. The coordinator refuses such a begin when the id is as old as the
// retention time, by its clock, so the record is kept for longer than that by the most that two clocks differ.
func (s *Scanner) obsolete(ctx context.Context, xids []string, busy func([]plan.Key) []bool) ([]bool, error) {
	if len(xids) > lookupPage {
		return nil, fmt.Errorf("asked about %d branches at once; at most %d", len(xids), lookupPage)
	}
	var keys []plan.Key
	var at []int
	for i, xid := range xids {
		if k, ok := s.parse(xid); ok {
			keys, at = append(keys, k), append(at, i)
		}
	}
	is := make([]bool, len(xids))
	if len(keys) == 0 {
		return is, nil
	}
	known, err := s.lookup(ctx, keys)
	if err != nil {
		return nil, err
	}
	called := busy(keys)
	for i, k := range keys {
		forgotten := known[i].State == 0 && time.Since(k.TX.Time()) >= max(known[i].RetentionHorizon, known[i].Retention)+ClockSlack // otherwise it is lost, and an operator may need it
		finished := known[i].State.Finished() && known[i].Heuristic == 0
		is[at[i]] = (forgotten || finished) && !called[i]
	}
	return is, nil
}
