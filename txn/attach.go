package txn

import (
	"context"
	"time"
)

// Header is where [Inject] and [Extract] keep a transaction's id on the way between
// services; an http.Header is one.
type Header interface {
	Get(key string) string
	Set(key, value string)
}

// HeaderID carries the id of the transaction that a request belongs to.
const HeaderID = "Txmgr-Transaction-Id"

// Inject lets a request carry the transaction, so that who receives it can attach
// to it.
func Inject(h Header, tx *Tx) {
	tx.mu.Lock()
	tx.shared, tx.guests = true, true
	tx.mu.Unlock()
	h.Set(HeaderID, tx.ID().String())
}

// Extract gives the transaction that a request carries. ok is false when it carries
// none, or nothing that is an id.
//
// Whoever knows an id can take part in the transaction: accept the header only from
// your own services.
func Extract(h Header) (id ID, ok bool) {
	id, err := ParseID(h.Get(HeaderID))
	return id, err == nil
}

// Attach gives a transaction that another application began, to work in it. Whoever
// calls it sees to it that Prepare or Rollback is called, and Follow after Prepare;
// [RunIn] does the first by itself.
//
// [ErrRolledBack], [ErrEndedByHand], [ErrHazard], [ErrNotActive]: the transaction is decided, or
// being decided.
func Attach(ctx context.Context, m Manager, id ID) (*Tx, error) {
	info, err := m.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	switch {
	case info.State == Active:
		return &Tx{m: m, begun: Begun{
			ID: id, Timeout: time.Duration(info.ExpiresIn), SurvivalIndex: info.SurvivalIndex, ExpiryTick: info.ExpiryTick,
		}, attached: true, shared: true, guests: true}, nil
	case info.State.Decided() && !info.State.Commits():
		return nil, info.RolledBack("attach")
	}
	return nil, &Error{Op: "attach", ID: id, State: info.State, Err: ErrNotActive}
}

// Prepare ends the work of an attached transaction: its sessions prepare, and the
// coordinator gets their votes. The application that began the transaction commits
// it; [Tx.Follow] then finishes the sessions.
//
// An error that is [ErrRolledBack] means that the whole transaction is rolled back;
// [ErrEndedByHand] that statements of an application had ended a branch, see
// [Tx.Commit].
// [ErrNotActive]: it was ended before. [ErrManaged]: this application began it.
func (tx *Tx) Prepare(ctx context.Context) error {
	if !tx.attached {
		return &Error{Op: "prepare", ID: tx.ID(), Err: ErrManaged, Detail: "this application began it; use Commit"}
	}
	members, first := tx.close()
	if !first {
		return tx.notActive("prepare")
	}
	return tx.handIn(ctx, ctx, members)
}

func (tx *Tx) handIn(ctx, work context.Context, members []*member) error {
	ballot, err := tx.prepare(ctx, work, members)
	if err != nil || len(ballot.Votes) == 0 {
		return err
	}
	out, err := tx.m.Vote(ctx, tx.ID(), ballot)
	if err == nil && out.State.Decided() && !out.State.Commits() {
		err = tx.rolledBack("prepare", out)
	}
	if err != nil {
		return tx.withdraw(ctx, err)
	}
	return nil
}

// Follow waits for the decision of a prepared transaction and brings the sessions
// to it. When ctx ends first they are released, and the coordinator finishes the
// branches; the error says that. [ErrEndedByHand]: statements of this application
// had ended a branch that is to be rolled back. It is to be called once, after Prepare, best where
// nobody waits for it.
func (tx *Tx) Follow(ctx context.Context) error {
	if members, _ := tx.close(); len(members) == 0 {
		return nil
	}
	info, err := tx.m.Wait(ctx, tx.ID(), DecidedGoal)
	switch {
	case err != nil || !info.State.Decided():
		for _, mb := range tx.settle(0) {
			mb.session.Release()
		}
		return err
	case info.State.Commits():
		tx.report(ctx, tx.drive(ctx, Committing))
	default:
		acks := tx.drive(ctx, RollingBack)
		if tx.byHand() != nil {
			return tx.endedByHand(ctx, "follow", Ballot{}, acks, nil)
		}
		tx.report(ctx, acks)
	}
	return nil
}
