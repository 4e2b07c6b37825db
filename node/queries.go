package node

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/txmgr/txmgr/internal/failpoint"
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// Get implements [txn.Manager].
func (n *Node) Get(ctx context.Context, id txn.ID) (txn.Info, error) {
	if err := n.requireReadable(ctx); err != nil {
		return txn.Info{}, txn.Wrap("get", id, err)
	}
	t, ok := n.stored(id)
	if !ok {
		return txn.Info{}, machine.Result{Code: machine.NotFound}.ToError("get", id)
	}
	return n.info(&t, true), nil
}

// stored returns one transaction as this node has applied it.
func (n *Node) stored(id txn.ID) (t machine.Transaction, ok bool) {
	n.fsm.View(func(m *machine.Machine) {
		failpoint.Hit("read")
		t, ok = m.Get(id)
	})
	return t, ok
}

// info builds the public view of a transaction. detailed adds the state of recovery. It reads the
// machine itself, so it must not be called inside View.
func (n *Node) info(t *machine.Transaction, detailed bool) txn.Info {
	i := txn.Info{
		ID: t.ID, Name: t.Name, State: t.State, Cause: t.Cause, Reason: t.Reason, Heuristic: t.Heuristic,
		Timeout: txn.Duration(t.Timeout), Began: time.UnixMilli(t.Began).UTC(),
		SurvivalIndex: t.Survival, ExpiryTick: uint64(t.Expiry), Labels: make(map[string]string, len(t.Labels)),
		Branches: make([]txn.BranchInfo, 0, len(t.Branches)), Session: t.Session,
	}
	if t.Decided != 0 {
		i.Decided, i.DecidedTick, i.DecidedIndex = time.UnixMilli(t.Decided).UTC(), uint64(t.DecidedTick), t.DecidedIndex
	}
	if !t.State.Decided() {
		tick, _ := n.clock.Now()
		i.ExpiresIn = txn.Duration(n.clock.Remaining(t.Expiry).Round(time.Millisecond))
		if t.Expiry > tick {
			i.RemainingInvocations = uint64(t.Expiry - tick)
		}
	}
	for _, l := range t.Labels {
		i.Labels[l.Key] = l.Value
	}
	cluster := n.clusterID()
	for k, b := range t.Branches {
		id := txn.BranchID(k + 1)
		p, _ := n.registration(b.Participant)
		i.Branches = append(i.Branches, txn.BranchInfo{
			ID: id, Name: id.String(), Participant: b.Participant, Kind: p.Kind,
			XID: txn.XID(cluster, t.ID, id), Vote: b.Vote, State: b.State, Heuristic: b.Heuristic, Detail: b.Detail,
		})
	}
	if r := n.recovery(); detailed && r != nil && t.State != txn.Active && !t.State.Finished() {
		for _, a := range r.RetryStates(t.ID) {
			if k := int(a.Branch) - 1; k >= 0 && k < len(i.Branches) {
				i.Branches[k].Attempts, i.Branches[k].LastError = a.Count, a.LastError
				i.Branches[k].NextTry = txn.Duration(a.NextTry)
			}
		}
	}
	return i
}

// matcher tests the parts of a filter that a summary answers, without decoding the transaction.
func (n *Node) matcher(f admin.Filter) func(machine.Summary) bool {
	bornBefore := n.conf.wall().Add(-f.OlderThan).UnixMilli()
	within := n.expiryBound(f)
	return func(b machine.Summary) bool {
		if len(f.States) > 0 && !slices.Contains(f.States, b.State) || f.OlderThan > 0 && b.Began > bornBefore {
			return false
		}
		if f.ExpiresWithin > 0 && (b.State.Decided() || b.Delegated || b.Expiry > within) {
			return false
		}
		return f.Prefix == "" || strings.HasPrefix(b.ID.String(), f.Prefix)
	}
}

func fits(f admin.Filter, t *machine.Transaction) bool {
	if f.Participant != "" && !slices.ContainsFunc(t.Branches, func(b machine.TransactionBranch) bool { return b.Participant == f.Participant }) {
		return false
	}
	for k, v := range f.Labels {
		if !slices.Contains(t.Labels, machine.Label{Key: k, Value: v}) {
			return false
		}
	}
	return true
}

// Watch yields changes of transactions as they are applied, until ctx ends. The
// participant, label and age parts of the filter are looked up at each event.
func (n *Node) Watch(ctx context.Context, f admin.Filter) iter.Seq2[admin.Event, error] {
	return func(yield func(admin.Event, error) bool) {
		match := n.matcher(admin.Filter{States: f.States, Prefix: f.Prefix})
		for c, err := range n.notifier.Watch(ctx) {
			if err != nil {
				yield(admin.Event{}, txn.Wrap("watch", txn.ID{}, err))
				return
			}
			if !match(machine.Summary{ID: c.ID, State: c.State}) {
				continue
			}
			e, ok := n.event(c, f)
			if ok && !yield(e, nil) {
				return
			}
		}
	}
}

func (n *Node) event(c machine.Change, f admin.Filter) (admin.Event, bool) {
	var t machine.Transaction
	var known bool
	var tick survival.Tick
	n.fsm.View(func(m *machine.Machine) {
		t, known = m.Get(c.ID)
		tick = m.Tick()
	})
	e := admin.Event{ID: c.ID, Name: t.Name, State: c.State, Cause: c.Cause, Heuristic: c.Heuristic, Tick: uint64(tick), Time: n.conf.wall().UTC()}
	return e, !known || fits(f, &t)
}
