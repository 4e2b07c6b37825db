package indoubt

import (
	"context"
	"slices"
	"time"

	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

const (
	// overdueAfter is how long a decided transaction may take before it is listed as in doubt, if
	// nothing has failed.
	overdueAfter = 5 * time.Second
	// scanStep is how many transactions one read of the state machine covers, so that a long scan
	// never delays the log.
	scanStep = 20_000
)

// List lists the transactions that an operator may have to look at, at most 1,000, oldest
// first: those with a heuristic outcome that is not forgotten; and those that are decided, or
// that are delegated and past their deadline or asked how they ended, and that have not completed within 5 seconds or
// had a failed attempt.
func (c Calls) List(ctx context.Context) ([]admin.InDoubt, error) {
	if err := c.Node.RequireReadable(ctx); err != nil {
		return nil, txn.Wrap("indoubt list", txn.ID{}, err)
	}
	found := c.find()
	out := make([]admin.InDoubt, len(found))
	for i := range found {
		t := &found[i]
		info := c.Node.Info(t)
		out[i] = admin.InDoubt{Info: info, Since: since(t), Why: listReason(t, &info)}
	}
	return out, nil
}

// find finds the transactions of [Calls.List].
func (c Calls) find() (found []machine.Transaction) {
	s := c.newFilter()
	for from := uint32(0); ; {
		var part []machine.Transaction
		c.View(func(m *machine.Machine) { part, from = m.Scan(from, scanStep, machine.IDRange{}, s.candidate) })
		for i := range part {
			if s.matches(&part[i]) {
				found = append(found, part[i])
			}
		}
		if len(found) > 2*admin.MaxInDoubt || from == 0 {
			slices.SortFunc(found, func(a, b machine.Transaction) int { return since(&a).Compare(since(&b)) })
			found = found[:min(len(found), admin.MaxInDoubt)]
		}
		if from == 0 {
			return found
		}
	}
}

// filter selects the transactions that are in doubt at one moment.
type filter struct {
	recovery *recovery.Recovery // nil unless this node leads
	tick     survival.Tick
	slack    survival.Tick   // overdueAfter in ticks
	failing  map[string]bool // participants that are unhealthy or have failed or waiting calls
}

func (c Calls) newFilter() *filter {
	s := &filter{recovery: c.Node.Recovery(), failing: make(map[string]bool)}
	s.tick, _ = c.Clock.Now()
	var boot machine.Bootstrap
	c.View(func(m *machine.Machine) { boot, _ = m.Bootstrap() })
	interval := max(boot.Interval, 1) // zero while the node belongs to no cluster
	s.slack = survival.Tick((overdueAfter + interval - 1) / interval)
	if r := s.recovery; r != nil {
		for _, name := range c.Log.Participants() {
			if h := r.Health(name); !h.Healthy || h.Waiting > 0 || h.LastError != "" {
				s.failing[name] = true
			}
		}
	}
	return s
}

// candidate is the cheap first check. It selects all transactions in doubt, and few others.
func (s *filter) candidate(b machine.Summary) bool {
	switch {
	case b.Heuristic != 0:
		return true
	case b.State.Decided():
		// A decision of an earlier release has no tick, and so counts as made long ago.
		return !b.State.Finished() && (len(s.failing) > 0 || b.DecidedTick+s.slack <= s.tick)
	}
	// Delegated, or the log makes no progress.
	return b.State == txn.Preparing && (b.Expiry <= s.tick || b.Delegated && len(s.failing) > 0)
}

// matches is the exact check of a candidate.
func (s *filter) matches(t *machine.Transaction) bool {
	if t.Heuristic != 0 {
		return true
	}
	if t.State.Finished() {
		return false
	}
	if s.overdue(t) {
		return true
	}
	if !t.State.Decided() && t.Expiry > s.tick && !t.EndAsked() {
		return false
	}
	atFailing := func(b machine.TransactionBranch) bool { return s.failing[b.Participant] && !b.State.Finished() }
	return s.recovery != nil && slices.ContainsFunc(t.Branches, atFailing) &&
		slices.ContainsFunc(s.recovery.RetryStates(t.ID), func(a recovery.RetryState) bool { return a.Count > 0 })
}

// overdue reports whether the branches have had enough time to complete, by the coordinator's
// own clock: the time for which the coordinator was down does not count.
func (s *filter) overdue(t *machine.Transaction) bool {
	from := t.DecidedTick
	if !t.State.Decided() || t.Decided == 0 && t.Cause == txn.CauseTimeout {
		from = t.Expiry
	}
	return from+s.slack <= s.tick
}
