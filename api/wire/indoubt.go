package wire

import (
	"fmt"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// FromInDoubts gives the message for the transactions in doubt.
func FromInDoubts(ds []admin.InDoubt) *txmgrv1.ListInDoubtResponse {
	m := &txmgrv1.ListInDoubtResponse{Transactions: make([]*txmgrv1.InDoubt, len(ds))}
	for n, d := range ds {
		t := FromInfo(d.Info)
		m.Transactions[n] = &txmgrv1.InDoubt{
			Id: t.GetId(), Name: t.GetName(), State: t.GetState(), Cause: t.GetCause(), Reason: t.GetReason(), Heuristic: t.GetHeuristic(),
			Timeout: t.GetTimeout(), Began: t.GetBegan(), ExpiresIn: t.GetExpiresIn(), SurvivalIndex: t.GetSurvivalIndex(),
			RemainingInvocations: t.GetRemainingInvocations(), ExpiryTick: t.GetExpiryTick(), Labels: t.GetLabels(), Branches: t.GetBranches(),
			Decided: t.Decided, DecidedTick: t.DecidedTick, DecidedIndex: t.DecidedIndex,
			Session: t.Session, Since: optional(formatTime(d.Since)), Why: Text(d.Why),
		}
	}
	return m
}

// ToInDoubts reads the message for the transactions in doubt.
func ToInDoubts(m *txmgrv1.ListInDoubtResponse) ([]admin.InDoubt, error) {
	ds := make([]admin.InDoubt, len(m.GetTransactions()))
	for n, d := range m.GetTransactions() {
		i, err := ToInfo(&txmgrv1.Transaction{
			Id: d.GetId(), Name: d.GetName(), State: d.GetState(), Cause: d.GetCause(), Reason: d.GetReason(), Heuristic: d.GetHeuristic(),
			Timeout: d.GetTimeout(), Began: d.GetBegan(), ExpiresIn: d.GetExpiresIn(), SurvivalIndex: d.GetSurvivalIndex(),
			RemainingInvocations: d.GetRemainingInvocations(), ExpiryTick: d.GetExpiryTick(), Labels: d.GetLabels(), Branches: d.GetBranches(),
			Decided: d.Decided, DecidedTick: d.DecidedTick, DecidedIndex: d.DecidedIndex, Session: d.Session,
		})
		if err != nil {
			return nil, err
		}
		var r fieldReader
		ds[n] = admin.InDoubt{Info: i, Since: r.time("transactions.since", d.GetSince()), Why: d.GetWhy()}
		if err := r.decodeError("transactions"); err != nil {
			return nil, err
		}
	}
	return ds, nil
}

// FromExplanation gives the message for all that is known about a transaction.
func FromExplanation(e admin.Explanation) *txmgrv1.Explanation {
	m := &txmgrv1.Explanation{
		Transaction: FromInfo(e.Transaction), Summary: textList(e.Summary),
		Branches: make([]*txmgrv1.BranchProbe, len(e.Branches)), Actions: make([]*txmgrv1.Action, len(e.Actions)), Audit: fromAudit(e.Audit),
	}
	for n, b := range e.Branches {
		m.Branches[n] = fromProbe(b)
	}
	for n, c := range e.Actions {
		m.Actions[n] = &txmgrv1.Action{Name: Text(c.Name), Allowed: c.Allowed, Why: Text(c.Why)}
	}
	return m
}

func fromProbe(b admin.BranchProbe) *txmgrv1.BranchProbe {
	m := &txmgrv1.BranchProbe{
		Branch: Text(b.Branch), Participant: Text(b.Participant), Prepared: b.Prepared, Since: optional(formatTime(b.Since)),
		Outcome: Text(b.Outcome), Detail: Text(b.Detail), Error: optional(Text(b.Error)), Locks: textList(b.Locks), Waiters: textList(b.Waiters),
		Attempts: make([]*txmgrv1.CallAttempt, len(b.Attempts)), EarlierAttempts: optional(int64(b.EarlierAttempts)),
	}
	for n, a := range b.Attempts {
		m.Attempts[n] = &txmgrv1.CallAttempt{
			At: formatTime(a.At), Took: formatDuration(time.Duration(a.Took)), Call: Text(a.Call), Result: Text(a.Result), Failed: a.Failed,
		}
	}
	return m
}

// ToExplanation reads the message for all that is known about a transaction.
func ToExplanation(m *txmgrv1.Explanation) (admin.Explanation, error) {
	i, err := ToInfo(m.GetTransaction())
	if err != nil {
		return admin.Explanation{}, err
	}
	var r fieldReader
	e := admin.Explanation{
		Transaction: i, Summary: textList(m.GetSummary()), Branches: make([]admin.BranchProbe, len(m.GetBranches())),
		Actions: make([]admin.Action, len(m.GetActions())), Audit: r.audit(m.GetAudit()),
	}
	for n, b := range m.GetBranches() {
		e.Branches[n] = r.probe(b)
	}
	for n, c := range m.GetActions() {
		e.Actions[n] = admin.Action{Name: c.GetName(), Allowed: c.GetAllowed(), Why: c.GetWhy()}
	}
	return e, r.decodeError("explanation")
}

func (r *fieldReader) probe(m *txmgrv1.BranchProbe) admin.BranchProbe {
	b := admin.BranchProbe{
		Branch: m.GetBranch(), Participant: m.GetParticipant(), Prepared: m.GetPrepared(), Since: r.time("branches.since", m.GetSince()),
		Outcome: m.GetOutcome(), Detail: m.GetDetail(), Error: m.GetError(), Locks: textList(m.GetLocks()), Waiters: textList(m.GetWaiters()),
		Attempts: make([]admin.CallAttempt, len(m.GetAttempts())), EarlierAttempts: int(m.GetEarlierAttempts()),
	}
	for n, a := range m.GetAttempts() {
		b.Attempts[n] = admin.CallAttempt{
			At: r.time("attempts.at", a.GetAt()), Took: r.duration("attempts.took", a.GetTook()),
			Call: a.GetCall(), Result: a.GetResult(), Failed: a.GetFailed(),
		}
	}
	return b
}

// FromResolution gives the message for an operator's resolution of a transaction.
func FromResolution(id txn.ID, r admin.Resolution) *txmgrv1.ResolveRequest {
	ending := txn.BranchRolledBack
	if r.Commit {
		ending = txn.BranchCommitted
	}
	return &txmgrv1.ResolveRequest{
		Id: formatID(id), Branch: formatBranch(r.Branch), Outcome: ending.String(), Reason: Text(r.Reason), By: Text(r.By),
	}
}

// ToResolution reads the message for an operator's resolution of a transaction. The outcome
// has no default: nothing must be recorded that the operator did not state. Errors are
// [txn.ErrInvalid].
func ToResolution(m *txmgrv1.ResolveRequest) (admin.Resolution, error) {
	r := admin.Resolution{Commit: m.GetOutcome() == txn.BranchCommitted.String(), Reason: m.GetReason(), By: m.GetBy()}
	if !r.Commit && m.GetOutcome() != txn.BranchRolledBack.String() {
		return r, fmt.Errorf("%w: ending %q: want %v or %v", txn.ErrInvalid, excerpt(m.GetOutcome()), txn.BranchCommitted, txn.BranchRolledBack)
	}
	if m.GetBranch() == "" {
		return r, nil
	}
	var err error
	r.Branch, err = txn.ParseBranchID(m.GetBranch())
	return r, err
}
