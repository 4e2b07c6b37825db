package servertest

import (
	"context"
	"fmt"
	"slices"

	crand "crypto/rand"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// OpenSession implements [server.Coordinator]. Sessions expire only through [Fake.ExpireSession].
func (f *Fake) OpenSession(ctx context.Context, o txn.SessionOptions) (admin.ClientSession, error) {
	if err := f.before(ctx, "open session", txn.ID{}); err != nil {
		return admin.ClientSession{}, err
	}
	if err := o.Check(); err != nil {
		return admin.ClientSession{}, &txn.Error{Op: "open session", Err: err}
	}
	if o.ID.IsZero() {
		var entropy [9]byte
		_, _ = crand.Read(entropy[:]) // never fails
		o.ID = txn.NewSessionID(f.Began, entropy)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	fresh := admin.ClientSession{ID: o.ID, Name: o.Name, State: txn.SessionOpen, TTL: txn.Duration(txn.GrantedTTL(o.TTL)), Opened: f.Began}
	i := slices.IndexFunc(f.sessions, func(s admin.ClientSession) bool { return s.ID == o.ID })
	switch {
	case i < 0:
		f.sessions = append(f.sessions, fresh)
	case f.sessions[i].State != txn.SessionOpen:
		return f.sessionLocked("open session", o.ID)
	case f.sessions[i].Name != fresh.Name || f.sessions[i].TTL != fresh.TTL:
		return admin.ClientSession{}, &txn.Error{Op: "open session", Err: txn.ErrConflict, Detail: "other options"}
	}
	return fresh, nil
}

// KeepAlive implements [server.Coordinator].
func (f *Fake) KeepAlive(ctx context.Context, id txn.SessionID) (admin.ClientSession, error) {
	if err := f.before(ctx, "keep alive", txn.ID{}); err != nil {
		return admin.ClientSession{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sessionLocked("keep alive", id)
}

// sessionLocked returns an open session.
func (f *Fake) sessionLocked(op string, id txn.SessionID) (admin.ClientSession, error) {
	i := slices.IndexFunc(f.sessions, func(s admin.ClientSession) bool { return s.ID == id })
	if i < 0 {
		return admin.ClientSession{}, &txn.Error{Op: op, Err: txn.ErrNotFound, Detail: fmt.Sprintf("no session %v", id)}
	}
	s := f.sessions[i]
	if s.State == txn.SessionOpen {
		return s, nil
	}
	return admin.ClientSession{}, &txn.Error{Op: op, Cause: s.State.Cause(), Err: txn.ErrNotFound, Detail: fmt.Sprintf("session %v %v at tick %d", id, s.State, s.EndedTick)}
}

// CloseSession implements [server.Coordinator].
func (f *Fake) CloseSession(ctx context.Context, id txn.SessionID) error {
	if err := f.before(ctx, "close session", txn.ID{}); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.ContainsFunc(f.sessions, func(s admin.ClientSession) bool { return s.ID == id && s.State == txn.SessionClosed }) {
		return nil // repeated
	}
	if _, err := f.sessionLocked("close session", id); err != nil {
		return err
	}
	f.endSessionLocked(id, txn.SessionClosed)
	return nil
}

// ExpireSession makes a session expire.
func (f *Fake) ExpireSession(id txn.SessionID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.endSessionLocked(id, txn.SessionExpired)
}

func (f *Fake) endSessionLocked(id txn.SessionID, state txn.SessionState) {
	for i := range f.sessions {
		if f.sessions[i].ID == id {
			f.sessions[i].State, f.sessions[i].EndedTick = state, 7
		}
	}
	for _, i := range f.transactions {
		if i.Session == id && !i.State.Decided() {
			i.State, i.Cause = txn.RollingBack, state.Cause()
			f.notifyLocked(i)
		}
	}
}

// Sessions implements [server.Coordinator].
func (f *Fake) Sessions(ctx context.Context, filter admin.SessionFilter) ([]admin.ClientSession, error) {
	if err := f.before(ctx, "list sessions", txn.ID{}); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	found := slices.DeleteFunc(slices.Clone(f.sessions), func(s admin.ClientSession) bool { return s.State != txn.SessionOpen && !filter.Ended })
	slices.SortFunc(found, func(a, b admin.ClientSession) int { return a.ID.Compare(b.ID) })
	if filter.Limit > 0 {
		found = found[max(len(found)-filter.Limit, 0):]
	}
	return found, nil
}
