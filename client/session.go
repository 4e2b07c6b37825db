package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// SessionOptions describe a session to open; see [txn.SessionOptions]. The zero value is valid.
type SessionOptions = txn.SessionOptions

// Session is a client session that keeps itself alive from [Client.OpenSession] until
// [Session.Close] or [Client.Close]. Soon after the process is gone or cut off, the undecided
// transactions that it began in the session ([WithSession]) are rolled back, long before
// their own timeouts.
//
// Safe for concurrent use.
type Session struct {
	c    *Client
	id   txn.SessionID
	ttl  time.Duration
	stop context.CancelFunc // ends the keep-alives
	done chan struct{}

	endOnce sync.Once
	err     error // why it has ended: set before done is closed
}

// keepAlivesPerTTL is how many keep-alives are sent per TTL: two of them may get lost.
const keepAlivesPerTTL = 3

// OpenSession opens a session and keeps it alive. The caller has to call Close.
func (c *Client) OpenSession(ctx context.Context, o SessionOptions) (*Session, error) {
	opened, err := c.CreateSession(ctx, o)
	if err != nil {
		return nil, err
	}
	c.heartbeatsMu.Lock()
	defer c.heartbeatsMu.Unlock()
	if c.ctx.Err() != nil {
		return nil, newError("open session", txn.ID{}, errClosed) // it could not be kept alive
	}
	s := &Session{c: c, id: opened.ID, ttl: time.Duration(opened.TTL), done: make(chan struct{})}
	keepAliveCtx, stop := context.WithCancel(c.ctx)
	s.stop = stop
	c.heartbeats.Go(func() { s.keepAliveLoop(keepAliveCtx) })
	return s, nil
}

// ID is the id of the session.
func (s *Session) ID() txn.SessionID { return s.id }

// TTL is the granted time to live: the coordinator ends the session when no keep-alive has
// arrived for so long.
func (s *Session) TTL() time.Duration { return s.ttl }

// Done is closed when the session has ended: it was closed, the coordinator reports that it
// has ended, or the client was closed. As long as no coordinator answers, the session may
// still be open: a new leader restarts its TTL.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err is nil as long as the session is not known to have ended, and then says why:
// [txn.ErrNotFound] if the coordinator does not have it any more, with
// [txn.ErrSessionExpired] if it was not renewed in time; [txn.ErrNotActive] after Close;
// [txn.ErrUnavailable] if the client was closed.
func (s *Session) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Close ends the session and rolls back its undecided transactions. After an error that is
// [txn.ErrUnavailable] the session expires at the end of its TTL, with the same effect. Close
// may be called again.
func (s *Session) Close(ctx context.Context) error {
	s.stop()
	if s.Err() != nil && !errors.Is(s.Err(), txn.ErrNotActive) {
		return s.Err()
	}
	err := s.c.CloseSession(ctx, s.id)
	if errors.Is(err, txn.ErrNotFound) {
		s.terminate(err)
	}
	s.terminate(&txn.Error{Op: "session", Err: txn.ErrNotActive, Detail: s.id.String() + " was closed"})
	return err
}

func (s *Session) terminate(why error) {
	s.endOnce.Do(func() {
		s.err = why
		close(s.done)
	})
}

// keepAliveLoop sends keep-alives until ctx ends, or the coordinator reports that the session
// has ended.
func (s *Session) keepAliveLoop(ctx context.Context) {
	defer s.stop()
	every := s.ttl / keepAlivesPerTTL
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			if s.c.ctx.Err() != nil {
				s.terminate(newError("session", txn.ID{}, errClosed))
			}
			return
		}
		timer.Reset(every)
		try, cancel := context.WithTimeout(ctx, every)
		_, err := s.c.KeepAlive(try, s.id)
		cancel()
		if errors.Is(err, txn.ErrNotFound) {
			s.terminate(err)
			return
		}
	}
}

type sessionKey struct{}

// WithSession makes the transactions that the session's client begins with the context part
// of the session, with [Client.Begin] or [txn.Run], unless [txn.Options] name another
// session. A nil s means no session.
func WithSession(ctx context.Context, s *Session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

// inSession returns the options of a transaction that is begun with the context.
func inSession(ctx context.Context, c *Client, o txn.Options) txn.Options {
	if s := sessionFrom(ctx, c); s != nil && o.Session.IsZero() {
		o.Session = s.id
	}
	return o
}

// sessionFrom returns the session of c that the context carries; nil if it carries none.
func sessionFrom(ctx context.Context, c *Client) *Session {
	if s, _ := ctx.Value(sessionKey{}).(*Session); s != nil && s.c == c {
		return s
	}
	return nil
}
