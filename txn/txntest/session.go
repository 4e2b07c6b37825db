package txntest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/txmgr/txmgr/internal/random"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// sessionCalls are the calls about client sessions, as [Manager.Fail] knows them.
var sessionCalls = []string{"open session", "keep alive", "close session", "list sessions"}

// OpenSession opens a client session, as a node does: the code under test, or the test, has to
// call [Manager.KeepAlive] again and again, or the transactions that were begun in the session
// ([txn.Options]) are rolled back. Opening it again, with the same id and options, renews it.
//
// [txn.ErrInvalid]: see [txn.SessionOptions.Check], or there are too many. [txn.ErrConflict]:
// the id is that of a session with other options. [txn.ErrNotFound]: that session has ended.
func (m *Manager) OpenSession(ctx context.Context, o txn.SessionOptions) (admin.ClientSession, error) {
	const op = "open session"
	if o.ID.IsZero() {
		o.ID = random.SessionID()
	}
	return withFaults(ctx, m, op, txn.ID{}, func() (admin.ClientSession, error) {
		if err := o.Check(); err != nil {
			return admin.ClientSession{}, txn.Wrap(op, txn.ID{}, err)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		ttl := txn.GrantedTTL(o.TTL)
		if err := m.sessionLocked(op, o.ID, machine.OpenSession{ID: o.ID, Name: o.Name, TTL: ttl}); err != nil {
			return admin.ClientSession{}, err
		}
		return m.renewSessionLocked(o.ID, ttl), nil
	})
}

// KeepAlive renews a session. Nil means that it is open, and will not expire before its TTL has
// passed.
//
// [txn.ErrNotFound]: it has ended, or is unknown; when it expired, the error is
// [txn.ErrSessionExpired] too.
func (m *Manager) KeepAlive(ctx context.Context, id txn.SessionID) (admin.ClientSession, error) {
	const op = "keep alive"
	return withFaults(ctx, m, op, txn.ID{}, func() (admin.ClientSession, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case id.IsZero():
			return admin.ClientSession{}, txn.Wrap(op, txn.ID{}, fmt.Errorf("%w: no session id given", txn.ErrInvalid))
		case m.closed:
			return admin.ClientSession{}, stoppingError(op, txn.ID{})
		}
		m.applyDueLocked()
		res := m.machine.SessionStatus(id)
		if res.Code != machine.OK {
			return admin.ClientSession{}, withSessionID(res.ToError(op, txn.ID{}), id)
		}
		return m.renewSessionLocked(id, res.Timeout), nil
	})
}

// renewSessionLocked renews a session that is open.
func (m *Manager) renewSessionLocked(id txn.SessionID, ttl time.Duration) admin.ClientSession {
	m.renewLocked(id, ttl)
	s, _ := m.machine.Session(id) // it is open
	return s.Public()
}

// CloseSession ends a session at the client's request. Its undecided transactions are rolled
// back with [txn.CauseClient].
//
// [txn.ErrNotFound]: it has expired, or is unknown.
func (m *Manager) CloseSession(ctx context.Context, id txn.SessionID) error {
	const op = "close session"
	_, err := withFaults(ctx, m, op, txn.ID{}, func() (none struct{}, err error) {
		if id.IsZero() {
			return none, &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: "no session id given"}
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if err := m.sessionLocked(op, id, machine.CloseSession{ID: id}); err != nil {
			return none, err
		}
		m.dropSessionLocked(id)
		return none, nil
	})
	return err
}

// sessionLocked carries out a command about a session and turns a refusal into an error.
func (m *Manager) sessionLocked(op string, id txn.SessionID, c machine.Command) error {
	if m.closed {
		return stoppingError(op, txn.ID{})
	}
	m.applyDueLocked()
	res := m.applyLocked(c)[0]
	switch res.Code {
	case machine.OK:
		return nil
	case machine.TooMany:
		return &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: fmt.Sprintf("%d sessions are open, the most that there can be", txn.MaxSessions)}
	case machine.Conflict:
		return &txn.Error{Op: op, Err: txn.ErrConflict, Detail: fmt.Sprintf("session %v was opened with other options", id)}
	}
	return withSessionID(res.ToError(op, txn.ID{}), id)
}

// withSessionID adds the session's id to a refusal.
func withSessionID(err error, id txn.SessionID) error {
	var e *txn.Error
	if errors.As(err, &e) && errors.Is(e.Err, txn.ErrNotFound) {
		e.Detail = id.String() + ": " + e.Detail
	}
	return err
}

// Sessions lists client sessions in the order of their ids, the newest ones when there are more
// than the filter's limit.
func (m *Manager) Sessions(ctx context.Context, f admin.SessionFilter) ([]admin.ClientSession, error) {
	const op = "list sessions"
	return withFaults(ctx, m, op, txn.ID{}, func() ([]admin.ClientSession, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.closed {
			return nil, stoppingError(op, txn.ID{})
		}
		m.applyDueLocked()
		found, _ := m.machine.Sessions(0, math.MaxInt, func(s *machine.Session) bool { return f.Ended || s.State == txn.SessionOpen })
		slices.SortFunc(found, func(a, b machine.Session) int { return a.ID.Compare(b.ID) })
		limit := f.Limit
		if limit <= 0 {
			limit = defaultListLimit
		}
		found = found[max(len(found)-min(limit, maxListLimit), 0):]
		out := make([]admin.ClientSession, len(found))
		for i := range found {
			out[i] = found[i].Public()
		}
		return out, nil
	})
}
