package wire

import (
	"fmt"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/txn"
)

// FromInDoubts gives the message for the transactions in doubt.
func FromInDoubts(ds []txn.InDoubt) *txmgrv1.ListDoubtsResponse {
	m := &txmgrv1.ListDoubtsResponse{Doubts: make([]*txmgrv1.Doubt, len(ds))}
	for n, d := range ds {
		t := FromInfo(d.Info)
		m.Doubts[n] = &txmgrv1.Doubt{
			Id: t.GetId(), Name: t.GetName(), State: t.GetState(), Cause: t.GetCause(), Reason: t.GetReason(), Hazard: t.GetHazard(),
			Timeout: t.GetTimeout(), Began: t.GetBegan(), ExpiresIn: t.GetExpiresIn(), SurvivalIndex: t.GetSurvivalIndex(),
			RemainingInvocations: t.GetRemainingInvocations(), ExpiryTick: t.GetExpiryTick(), Labels: t.GetLabels(), Branches: t.GetBranches(),
			Decided: t.Decided, DecidedTick: t.DecidedTick, DecidedIndex: t.DecidedIndex,
			Session: t.Session, Since: optional(formatTime(d.Since)), Why: Text(d.Why),
		}
	}
	return m
}

// ToInDoubts reads the message for the transactions in doubt.
func ToInDoubts(m *txmgrv1.ListDoubtsResponse) ([]txn.InDoubt, error) {
	ds := make([]txn.InDoubt, len(m.GetDoubts()))
	for n, d := range m.GetDoubts() {
		i, err := ToInfo(&txmgrv1.Transaction{
			Id: d.GetId(), Name: d.GetName(), State: d.GetState(), Cause: d.GetCause(), Reason: d.GetReason(), Hazard: d.GetHazard(),
			Timeout: d.GetTimeout(), Began: d.GetBegan(), ExpiresIn: d.GetExpiresIn(), SurvivalIndex: d.GetSurvivalIndex(),
			RemainingInvocations: d.GetRemainingInvocations(), ExpiryTick: d.GetExpiryTick(), Labels: d.GetLabels(), Branches: d.GetBranches(),
			Decided: d.Decided, DecidedTick: d.DecidedTick, DecidedIndex: d.DecidedIndex, Session: d.Session,
		})
		if err != nil {
			return nil, err
		}
		var r fieldReader
		ds[n] = txn.InDoubt{Info: i, Since: r.time("doubts.since", d.GetSince()), Why: d.GetWhy()}
		if err := r.decodeError("doubts"); err != nil {
			return nil, err
		}
	}
	return ds, nil
}

// FromExplanation gives the message for all that is known about a transaction.
func FromExplanation(e txn.Explanation) *txmgrv1.Explanation {
	m := &txmgrv1.Explanation{
		Transaction: FromInfo(e.Transaction), Story: textList(e.Summary),
		Branches: make([]*txmgrv1.BranchInquiry, len(e.Branches)), Choices: make([]*txmgrv1.Choice, len(e.Actions)), Audit: fromAudit(e.Audit),
	}
	for n, b := range e.Branches {
		m.Branches[n] = fromProbe(b)
	}
	for n, c := range e.Actions {
		m.Choices[n] = &txmgrv1.Choice{Action: Text(c.Name), Allowed: c.Allowed, Why: Text(c.Why), Command: optional(Text(c.Command))}
	}
	return m
}

func fromProbe(b txn.BranchProbe) *txmgrv1.BranchInquiry {
	m := &txmgrv1.BranchInquiry{
		Branch: Text(b.Branch), Participant: Text(b.Participant), Prepared: b.Prepared, Since: optional(formatTime(b.Since)),
		Ending: Text(b.Outcome), Detail: Text(b.Detail), Error: optional(Text(b.Error)), Locks: textList(b.Locks), Waiters: textList(b.Waiters),
		Attempts: make([]*txmgrv1.Attempt, len(b.Attempts)), EarlierAttempts: optional(int64(b.EarlierAttempts)),
	}
	for n, a := range b.Attempts {
		m.Attempts[n] = &txmgrv1.Attempt{
			At: formatTime(a.At), Took: formatDuration(time.Duration(a.Took)), Call: Text(a.Call), Result: Text(a.Result), Failed: a.Failed,
		}
	}
	return m
}

// ToExplanation reads the message for all that is known about a transaction.
func ToExplanation(m *txmgrv1.Explanation) (txn.Explanation, error) {
	i, err := ToInfo(m.GetTransaction())
	if err != nil {
		return txn.Explanation{}, err
	}
	var r fieldReader
	e := txn.Explanation{
		Transaction: i, Summary: textList(m.GetStory()), Branches: make([]txn.BranchProbe, len(m.GetBranches())),
		Actions: make([]txn.Action, len(m.GetChoices())), Audit: r.audit(m.GetAudit()),
	}
	for n, b := range m.GetBranches() {
		e.Branches[n] = r.probe(b)
	}
	for n, c := range m.GetChoices() {
		e.Actions[n] = txn.Action{Name: c.GetAction(), Allowed: c.GetAllowed(), Why: c.GetWhy(), Command: c.GetCommand()}
	}
	return e, r.decodeError("explanation")
}

func (r *fieldReader) probe(m *txmgrv1.BranchInquiry) txn.BranchProbe {
	b := txn.BranchProbe{
		Branch: m.GetBranch(), Participant: m.GetParticipant(), Prepared: m.GetPrepared(), Since: r.time("branches.since", m.GetSince()),
		Outcome: m.GetEnding(), Detail: m.GetDetail(), Error: m.GetError(), Locks: textList(m.GetLocks()), Waiters: textList(m.GetWaiters()),
		Attempts: make([]txn.CallAttempt, len(m.GetAttempts())), EarlierAttempts: int(m.GetEarlierAttempts()),
	}
	for n, a := range m.GetAttempts() {
		b.Attempts[n] = txn.CallAttempt{
			At: r.time("attempts.at", a.GetAt()), Took: r.duration("attempts.took", a.GetTook()),
			Call: a.GetCall(), Result: a.GetResult(), Failed: a.GetFailed(),
		}
	}
	return b
}

// FromResolution gives the message for an operator's resolution of a transaction.
func FromResolution(id txn.ID, r txn.Resolution) *txmgrv1.ResolveRequest {
	ending := txn.BranchRolledBack
	if r.Commit {
		ending = txn.BranchCommitted
	}
	return &txmgrv1.ResolveRequest{
		Id: formatID(id), Branch: formatBranch(r.Branch), Ending: ending.String(), Reason: Text(r.Reason), By: Text(r.By),
	}
}

// ToResolution reads the message for an operator's resolution of a transaction. The outcome
// has no default: nothing must be recorded that the operator did not state. Errors are
// [txn.ErrInvalid].
func ToResolution(m *txmgrv1.ResolveRequest) (txn.Resolution, error) {
	r := txn.Resolution{Commit: m.GetEnding() == txn.BranchCommitted.String(), Reason: m.GetReason(), By: m.GetBy()}
	if !r.Commit && m.GetEnding() != txn.BranchRolledBack.String() {
		return r, fmt.Errorf("%w: ending %q: want %v or %v", txn.ErrInvalid, truncate(m.GetEnding()), txn.BranchCommitted, txn.BranchRolledBack)
	}
	if m.GetBranch() == "" {
		return r, nil
	}
	var err error
	r.Branch, err = txn.ParseBranchID(m.GetBranch())
	return r, err
}
