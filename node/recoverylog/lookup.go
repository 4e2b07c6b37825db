package recoverylog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// Lookup implements [recovery.Log]. An entry that was acknowledged before the call was acknowledged
// by this leader, after it had applied the entry, or by an earlier one; and this one applied all
// entries of earlier leaders before it began to lead. So it is enough that it still leads, and leads
// until the state was read: otherwise it may hold what the next leader has decided, and an action on that
// would disturb what that leader does.
func (l *Log) Lookup(ctx context.Context, keys []recovery.Key) ([]recovery.BranchStatus, error) {
	term := l.Term()
	if err := l.RequireReadable(ctx); err != nil {
		return nil, err
	}
	known := make([]recovery.BranchStatus, len(keys))
	l.View(func(m *machine.Machine) {
		horizon := retentionHorizon(m)
		for i, k := range keys {
			t, ok := m.Get(k.TX)
			if !ok {
				known[i].RetentionHorizon, known[i].Retention = horizon, retention(m)
				if made := k.TX.Time(); m.MayPredateBackup(made.UnixMilli(), recovery.ClockSlack.Milliseconds()) {
					// As if everything since its begin were remembered: then it
					// has certainly been lost.
					known[i].RetentionHorizon = max(horizon, time.Since(made).Round(time.Minute)+recovery.ClockSlack)
				}
				continue
			}
			known[i].State, known[i].Heuristic = t.State, t.Heuristic
			if decider := t.Decider(); t.State == txn.Active && decider != 0 {
				known[i].Decider = recovery.Branch{Participant: t.Branches[decider-1].Participant, Branch: BranchOf(m, &t, decider)}
			}
			if k.Branch >= 1 && int(k.Branch) <= len(t.Branches) {
				known[i].Branch = BranchOf(m, &t, k.Branch)
				b := &t.Branches[k.Branch-1]
				known[i].Unfinished = (t.State.Decided() || t.Delegated()) && !b.State.Finished()
			}
		}
	})
	if now := l.Term(); now != term { // a node knows of a term before it applies an entry of it
		return nil, fmt.Errorf("%w: this node was deposed: term %d has begun", txn.ErrUnavailable, now)
	}
	return known, nil
}

// CheckAppointed refuses the begin of an unknown transaction that appoints a branch when its id is as old as the retention
// time, by this clock: the row that proves how the branch ended may have been removed ([recovery.ClockSlack] later, by the
// clock of the node that leads then), so that a branch which was committed would be taken for one that was not. The mark of the
// id does not suffice: while no node leads, the log's ticks stand still, and clocks go on. The retention horizon would be too
// strict: it comes near when there are many outcomes, and clocks differ.
//
// An enlistment that appoints a branch needs no such check: its client commits the branch when the enlistment has been
// answered, so that the log knows the transaction before there is a row to be removed, and keeps it until it is finished.
func CheckAppointed(view func(func(*machine.Machine)), o txn.Options, now time.Time) (err error) {
	if !slices.ContainsFunc(o.Branches, func(e txn.Enlistment) bool { return e.Decides }) {
		return nil
	}
	view(func(m *machine.Machine) {
		if _, known := m.Lookup(o.ID); !known && now.Sub(o.ID.Time()) >= retention(m) {
			err = machine.Result{Code: machine.Forgotten, Mark: m.Mark()}.ToError("begin", o.ID)
		}
	})
	return err
}

func retention(m *machine.Machine) time.Duration {
	boot, _ := m.Bootstrap()
	return boot.Retention
}

// retentionHorizon is the least time for which every outcome is remembered: since the horizon, but
// without the tick of the horizon itself, since an outcome may have been late in its tick. It is
// never zero, which would mean that nothing is known.
func retentionHorizon(m *machine.Machine) time.Duration {
	boot, _ := m.Bootstrap()
	if boot.Interval <= 0 {
		return 0
	}
	retention := max(survival.Tick(boot.Retention/boot.Interval), 1) - 1 // also of a young cluster, which has forgotten nothing
	if horizon := m.RetentionHorizon(); horizon > 0 {
		retention = min(retention, m.Tick()-horizon)
	}
	return max(1, time.Duration(retention)*boot.Interval)
}
