package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/internal/random"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// OpenSession opens a client session: unless the client renews it in time ([Node.KeepAlive]), its
// undecided transactions are rolled back. The answer reports what was granted. Opening it again,
// with the same id and options, renews it.
//
// [txn.ErrInvalid]: see [txn.SessionOptions.Check], or there are too many. [txn.ErrConflict]: the id is that of a session
// with other options. [txn.ErrNotFound]: that session has ended.
func (n *Node) OpenSession(ctx context.Context, o txn.SessionOptions) (admin.ClientSession, error) {
	const op = "open session"
	if err := o.Check(); err != nil {
		return admin.ClientSession{}, txn.Wrap(op, txn.ID{}, err)
	}
	if o.ID.IsZero() {
		o.ID = random.SessionID()
	}
	res, err := n.proposeCommand(ctx, op, machine.OpenSession{ID: o.ID, Name: o.Name, TTL: txn.GrantedTTL(o.TTL)}, nil)
	switch {
	case res.Code == machine.TooMany:
		return admin.ClientSession{}, &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: fmt.Sprintf("%d sessions are open, the most that there can be: close those that are over", txn.MaxSessions)}
	case res.Code == machine.Conflict:
		return admin.ClientSession{}, &txn.Error{Op: op, Err: txn.ErrConflict, Detail: fmt.Sprintf("session %v was opened with other options", o.ID)}
	case err != nil:
		return admin.ClientSession{}, withSessionID(err, o.ID)
	}
	return n.renewSession(ctx, op, o.ID)
}

// KeepAlive renews a session. Nil means that it is open, and will not expire before its TTL has
// passed, counted from the call.
//
// [txn.ErrNotFound]: it has ended, or is unknown; when it expired, the error is [txn.ErrSessionExpired] too.
func (n *Node) KeepAlive(ctx context.Context, id txn.SessionID) (admin.ClientSession, error) {
	return n.renewSession(ctx, "keep alive", id)
}

// renewSession moves the session to the front of its belt and then verifies that this node led at
// that moment, or later: so the next leader begins to count after it.
func (n *Node) renewSession(ctx context.Context, op string, id txn.SessionID) (admin.ClientSession, error) {
	failed := func(err error) (admin.ClientSession, error) {
		return admin.ClientSession{}, txn.Wrap(op, txn.ID{}, n.orLogFailure(err))
	}
	if id.IsZero() {
		return failed(fmt.Errorf("%w: no session id given", txn.ErrInvalid))
	}
	if err := n.requireLeader(); err != nil {
		return failed(err)
	}
	res, _ := n.lookupSession(id)
	renewed := false
	p := n.sessionExpirer()
	if p != nil && res.Code == machine.OK {
		renewed = p.Renew(id, res.Timeout)
	}
	if err := n.confirmLeadership(ctx); err != nil {
		return failed(err)
	}
	res, session := n.lookupSession(id)
	switch {
	case res.Code != machine.OK:
		return admin.ClientSession{}, withSessionID(res.ToError(op, txn.ID{}), id)
	case !renewed && (p == nil || p != n.sessionExpirer()):
		return failed(fmt.Errorf("%w: this node has just been elected", txn.ErrUnavailable))
	case !renewed:
		// It is on no belt: the entry that ends it is in flight, and may be lost with this leader;
		// or the one that opens it has just been applied. Only the log can report that it has
		// ended.
		return failed(fmt.Errorf("%w: session %v is being opened or expired at this moment", txn.ErrUnavailable, id))
	}
	return session.Public(), nil
}

// lookupSession returns a session and its status.
func (n *Node) lookupSession(id txn.SessionID) (res machine.Result, s machine.Session) {
	n.fsm.View(func(m *machine.Machine) {
		res = m.SessionStatus(id)
		s, _ = m.Session(id)
	})
	return res, s
}

// withSessionID adds the id of the session to a refusal.
func withSessionID(err error, id txn.SessionID) error {
	var e *txn.Error
	if errors.As(err, &e) && errors.Is(e.Err, txn.ErrNotFound) {
		e.Detail = id.String() + ": " + e.Detail
	}
	return err
}

// CloseSession ends a session at the client's request. Its undecided transactions are rolled back,
// with [txn.CauseClient].
//
// [txn.ErrNotFound]: it has expired, or is unknown.
func (n *Node) CloseSession(ctx context.Context, id txn.SessionID) error {
	const op = "close session"
	if id.IsZero() {
		return &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: "no session id given"}
	}
	if _, err := n.proposeCommand(ctx, op, machine.CloseSession{ID: id}, nil); err != nil {
		return withSessionID(err, id)
	}
	return nil
}
