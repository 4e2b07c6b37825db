package wire

import (
	"fmt"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/txn"
)

// FromDoubts gives the message for the transactions in doubt.
func FromDoubts(ds []txn.Doubt) *txmgrv1.ListDoubtsResponse {
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

// ToDoubts reads the message for the transactions in doubt.
func ToDoubts(m *txmgrv1.ListDoubtsResponse) ([]txn.Doubt, error) {
	ds := make([]txn.Doubt, len(m.GetDoubts()))
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
		var r reader
		ds[n] = txn.Doubt{Info: i, Since: r.time("doubts.since", d.GetSince()), Why: d.GetWhy()}
		if err := r.answer("doubts"); err != nil {
			return nil, err
		}
	}
	return ds, nil
}

// FromExplanation gives the message for all that is known about a transaction.
func FromExplanation(e txn.Explanation) *txmgrv1.Explanation {
	m := &txmgrv1.Explanation{
		Transaction: FromInfo(e.Transaction), Story: texts(e.Story),
		Branches: make([]*txmgrv1.BranchInquiry, len(e.Branches)), Choices: make([]*txmgrv1.Choice, len(e.Choices)), Audit: fromAudit(e.Audit),
	}
	for n, b := range e.Branches {
		m.Branches[n] = fromInquiry(b)
	}
	for n, c := range e.Choices {
		m.Choices[n] = &txmgrv1.Choice{Action: Text(c.Action), Allowed: c.Allowed, Why: Text(c.Why), Command: optional(Text(c.Command))}
	}
	return m
}

func fromInquiry(b txn.BranchInquiry) *txmgrv1.BranchInquiry {
	m := &txmgrv1.BranchInquiry{
		Branch: Text(b.Branch), Participant: Text(b.Participant), Prepared: b.Prepared, Since: optional(formatTime(b.Since)),
		Ending: Text(b.Ending), Detail: Text(b.Detail), Error: optional(Text(b.Error)), Locks: texts(b.Locks), Waiters: texts(b.Waiters),
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
	var r reader
	e := txn.Explanation{
		Transaction: i, Story: texts(m.GetStory()), Branches: make([]txn.BranchInquiry, len(m.GetBranches())),
		Choices: make([]txn.Choice, len(m.GetChoices())), Audit: r.audit(m.GetAudit()),
	}
	for n, b := range m.GetBranches() {
		e.Branches[n] = r.inquiry(b)
	}
	for n, c := range m.GetChoices() {
		e.Choices[n] = txn.Choice{Action: c.GetAction(), Allowed: c.GetAllowed(), Why: c.GetWhy(), Command: c.GetCommand()}
	}
	return e, r.answer("explanation")
}

func (r *reader) inquiry(m *txmgrv1.BranchInquiry) txn.BranchInquiry {
	b := txn.BranchInquiry{
		Branch: m.GetBranch(), Participant: m.GetParticipant(), Prepared: m.GetPrepared(), Since: r.time("branches.since", m.GetSince()),
		Ending: m.GetEnding(), Detail: m.GetDetail(), Error: m.GetError(), Locks: texts(m.GetLocks()), Waiters: texts(m.GetWaiters()),
		Attempts: make([]txn.Attempt, len(m.GetAttempts())), EarlierAttempts: int(m.GetEarlierAttempts()),
	}
	for n, a := range m.GetAttempts() {
		b.Attempts[n] = txn.Attempt{
			At: r.time("attempts.at", a.GetAt()), Took: r.duration("attempts.took", a.GetTook()),
			Call: a.GetCall(), Result: a.GetResult(), Failed: a.GetFailed(),
		}
	}
	return b
}

// FromResolution gives the message for a person's word about a transaction.
func FromResolution(id txn.ID, r txn.Resolution) *txmgrv1.ResolveRequest {
	ending := txn.BranchRolledBack
	if r.Commit {
		ending = txn.BranchCommitted
	}
	return &txmgrv1.ResolveRequest{
		Id: formatID(id), Branch: formatBranch(r.Branch), Ending: ending.String(), Reason: Text(r.Reason), By: Text(r.By),
	}
}

// ToResolution reads the message for a person's word about a transaction. The
// ending has no default: what is not said must not be recorded. Errors are
// [txn.ErrInvalid].
func ToResolution(m *txmgrv1.ResolveRequest) (txn.Resolution, error) {
	r := txn.Resolution{Commit: m.GetEnding() == txn.BranchCommitted.String(), Reason: m.GetReason(), By: m.GetBy()}
	if !r.Commit && m.GetEnding() != txn.BranchRolledBack.String() {
		return r, fmt.Errorf("%w: ending %q: want %v or %v", txn.ErrInvalid, clip(m.GetEnding()), txn.BranchCommitted, txn.BranchRolledBack)
	}
	if m.GetBranch() == "" {
		return r, nil
	}
	var err error
	r.Branch, err = txn.ParseBranchID(m.GetBranch())
	return r, err
}
