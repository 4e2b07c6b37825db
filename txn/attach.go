package txn

import (
	"context"
	"time"
)

// Header is where [Inject] and [Extract] keep a transaction's id between services; an
// http.Header is one.
type Header interface {
	Get(key string) string
	Set(key, value string)
}

// HeaderID is the header with the id of the transaction that a request belongs to.
const HeaderID = "Txmgr-Transaction-Id"

// Inject makes a request carry the transaction, so that its receiver can attach to it. It waits
// until the coordinator has begun the transaction, as [Tx.ID] does; call [Tx.AwaitBegin] before,
// with the context of the request, to have the error if that fails.
func Inject(h Header, tx *Tx) {
	tx.mu.Lock()
	tx.untrackedBranches, tx.multiClient = true, true
	tx.mu.Unlock()
	h.Set(HeaderID, tx.ID().String())
}

// Extract returns the id of the transaction that a request carries. ok is false when it carries
// none, or nothing that is an id.
//
// Any client that knows an id can take part in the transaction: accept the header only from
// your own services.
func Extract(h Header) (id ID, ok bool) {
	id, err := ParseID(h.Get(HeaderID))
	return id, err == nil
}

// Attach returns a transaction that another application began, to work in it. The caller must
// see to it that Prepare or Rollback is called, and Complete after Prepare; [RunIn] does the
// first by itself.
//
// [ErrRolledBack], [ErrEndedByApplication], [ErrHeuristic], [ErrNotActive]: the transaction is
// decided, or being decided.
func Attach(ctx context.Context, m Manager, id ID) (*Tx, error) {
	info, err := m.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	switch {
	case info.State == Active:
		return &Tx{m: m, begin: BeginResult{
			ID: id, Timeout: time.Duration(info.ExpiresIn), SurvivalIndex: info.SurvivalIndex, ExpiryTick: info.ExpiryTick,
		}, attached: true, untrackedBranches: true, multiClient: true}, nil
	case info.State.Decided() && !info.State.Commits():
		return nil, info.RolledBack("attach")
	}
	return nil, &Error{Op: "attach", ID: id, State: info.State, Err: ErrNotActive}
}

// Prepare ends the work of an attached transaction: its resources prepare, and the coordinator
// receives their votes. The application that began the transaction commits it; [Tx.Complete]
// then finishes the resources.
//
// An error that is [ErrRolledBack] means that the whole transaction is rolled back;
// [ErrEndedByApplication] that statements of an application had ended a branch, see
// [Tx.Commit]. [ErrNotActive]: it was ended before. [ErrManaged]: this application began it.
func (tx *Tx) Prepare(ctx context.Context) error {
	if !tx.attached {
		return &Error{Op: "prepare", ID: tx.begin.ID, Err: ErrManaged, Detail: "this application began it; use Commit"}
	}
	enrollments, first := tx.stopEnlisting()
	if !first {
		return tx.notActive("prepare")
	}
	return tx.submitVotes(ctx, ctx, enrollments)
}

func (tx *Tx) submitVotes(ctx, work context.Context, enrollments []*enrollment) error {
	votes, err := tx.prepare(ctx, work, enrollments)
	if err != nil || len(votes.Votes) == 0 {
		return err
	}
	out, err := tx.m.Vote(ctx, tx.begin.ID, votes)
	if err == nil && out.State.Decided() && !out.State.Commits() {
		err = tx.rolledBack("prepare", out)
	}
	if err != nil {
		return tx.abortAfterVotes(ctx, err)
	}
	return nil
}

// Complete waits for the decision on a prepared transaction and drives the resources to it.
// When ctx ends first, the resources are released, the coordinator finishes the branches, and
// the error says so. [ErrEndedByApplication]: statements of this application had ended a branch
// that is to be rolled back. It is to be called once, after Prepare, best where no caller waits
// for it.
func (tx *Tx) Complete(ctx context.Context) error {
	if enrollments, _ := tx.stopEnlisting(); len(enrollments) == 0 {
		return nil
	}
	info, err := tx.m.Wait(ctx, tx.begin.ID, UntilDecided)
	switch {
	case err != nil || !info.State.Decided():
		for _, en := range tx.setDecision(0) {
			en.resource.Release()
		}
		return err
	case info.State.Commits():
		tx.reportCompletion(ctx, tx.completeResources(ctx, Committing))
	default:
		reports := tx.completeResources(ctx, RollingBack)
		if tx.applicationEndError() != nil {
			return tx.reportEndedByApplication(ctx, "follow", Votes{}, reports, nil)
		}
		tx.reportCompletion(ctx, reports)
	}
	return nil
}
