package txntest

import (
	"context"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// outcomeTimeout is how long Outcome waits for the manager to complete a transaction by itself.
const outcomeTimeout = time.Minute

// Transactions returns all transactions that were begun, in that order.
func (m *Manager) Transactions() []txn.Info {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]txn.Info, 0, len(m.order))
	for _, id := range m.order {
		if t, ok := m.machine.Get(id); ok { // otherwise its retention has ended
			all = append(all, m.infoLocked(&t))
		}
	}
	return all
}

// Unfinished returns the transactions that are not finished: those that are undecided, and
// those of which a branch has not completed.
func (m *Manager) Unfinished() []txn.Info {
	var left []txn.Info
	for _, info := range m.Transactions() {
		if !info.State.Finished() {
			left = append(left, info)
		}
	}
	return left
}

// Outcome waits until the transaction is finished and returns its outcome: at most a minute
// beyond its deadline, then the test fails. It is to be called by the test's own goroutine.
func (m *Manager) Outcome(id txn.ID) txn.Outcome {
	m.tb.Helper()
	info, _, err := m.watch(id)
	if err != nil {
		m.tb.Fatalf("txntest: %v", err)
	}
	ctx, cancel := context.WithTimeout(m.ctx, time.Duration(info.ExpiresIn)+outcomeTimeout)
	defer cancel()
	info, err = m.await(ctx, "outcome", id, txn.State.Finished)
	if err != nil {
		m.tb.Fatalf("txntest: %v is still %v, with the branches %v: %v", id, info.State, unfinished(info), err)
	}
	return txn.Outcome{State: info.State, Cause: info.Cause, Heuristic: info.Heuristic}
}

func unfinished(info txn.Info) (at []string) {
	for _, b := range info.Branches {
		if !b.State.Finished() {
			at = append(at, b.Name+" at "+b.Participant)
		}
	}
	return at
}

func (m *Manager) infoLocked(t *machine.Transaction) txn.Info {
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
		tick, _ := m.now()
		i.ExpiresIn = txn.Duration(m.until(t.Expiry).Round(time.Millisecond))
		if t.Expiry > tick {
			i.RemainingInvocations = uint64(t.Expiry - tick)
		}
	}
	for _, l := range t.Labels {
		i.Labels[l.Key] = l.Value
	}
	for k, b := range t.Branches {
		id := txn.BranchID(k + 1)
		p, _ := m.machine.Participant(b.Participant)
		i.Branches = append(i.Branches, txn.BranchInfo{
			ID: id, Name: id.String(), Participant: b.Participant, Kind: p.Kind, XID: txn.XID(cluster, t.ID, id),
			Vote: b.Vote, State: b.State, Heuristic: b.Heuristic, Detail: b.Detail,
		})
	}
	return i
}
