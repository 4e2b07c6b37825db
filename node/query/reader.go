// Package query reads the applied state of a node for its callers: a transaction ([Reader.Info]), lists of
// transactions and client sessions, changes as they are applied, and the survival index. A call reads
// in steps, so that a long list does not delay the log. Whether the state may be read, and how
// recent it is, the caller decides beforehand.
package query

import (
	"time"

	"github.com/txmgr/txmgr/node/ticks"
	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// Reader reads the state of one node. All fields are required.
type Reader struct {
	View     func(func(*machine.Machine)) // the state machine
	Clock    *ticks.Clock
	Wall     func() time.Time
	Recovery func() *recovery.Recovery // nil unless the node leads
}

// Info builds the public view of a transaction, with the state of recovery if this node leads. It
// reads the machine itself, so it must not be called inside View.
func (r Reader) Info(t *machine.Transaction) txn.Info {
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
		tick, _ := r.Clock.Now()
		i.ExpiresIn = txn.Duration(r.Clock.Remaining(t.Expiry).Round(time.Millisecond))
		if t.Expiry > tick {
			i.RemainingInvocations = uint64(t.Expiry - tick)
		}
	}
	for _, l := range t.Labels {
		i.Labels[l.Key] = l.Value
	}
	cluster := r.bootstrap().Cluster
	for k, b := range t.Branches {
		id := txn.BranchID(k + 1)
		p, _ := r.registration(b.Participant)
		i.Branches = append(i.Branches, txn.BranchInfo{
			ID: id, Name: id.String(), Participant: b.Participant, Kind: p.Kind,
			XID: txn.XID(cluster, t.ID, id), Vote: b.Vote, State: b.State, Heuristic: b.Heuristic, Detail: b.Detail,
		})
	}
	if recovery := r.Recovery(); recovery != nil && t.State != txn.Active && !t.State.Finished() {
		for _, a := range recovery.RetryStates(t.ID) {
			if k := int(a.Branch) - 1; k >= 0 && k < len(i.Branches) {
				i.Branches[k].Attempts, i.Branches[k].LastError = a.Count, a.LastError
				i.Branches[k].NextTry = txn.Duration(a.NextTry)
			}
		}
	}
	return i
}

func (r Reader) registration(name string) (p admin.Participant, ok bool) {
	r.View(func(m *machine.Machine) { p, ok = m.Participant(name) })
	return p, ok
}

func (r Reader) bootstrap() (b machine.Bootstrap) {
	r.View(func(m *machine.Machine) { b, _ = m.Bootstrap() })
	return b
}
