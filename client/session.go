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

// Session says that this client lives: what it begins in the session ([WithSession]) is rolled back soon after the process
// is gone, or is cut off, long before the transactions' own timeouts. It keeps itself alive, from [Client.OpenSession] until
// [Session.Close] or [Client.Close].
//
// Safe for concurrent use.
type Session struct {
	c    *Client
	id   txn.SessionID
	ttl  time.Duration
	stop context.CancelFunc // ends the signs of life
	done chan struct{}

	endOnce sync.Once
	err     error // why it is over: set before done is closed
}

// keepAlivesPerTTL is how many signs of life are sent in a TTL: so two of them may get lost.
const keepAlivesPerTTL = 3

// OpenSession opens a session and keeps it alive. Whoever calls it sees to it that Close is called.
func (c *Client) OpenSession(ctx context.Context, o SessionOptions) (*Session, error) {
	opened, err := c.CreateSession(ctx, o)
	if err != nil {
		return nil, err
	}
	c.heartbeatsMu.Lock()
	defer c.heartbeatsMu.Unlock()
	if c.ctx.Err() != nil {
		return nil, newError("open session", txn.ID{}, errClosed) // nobody would keep it alive
	}
	s := &Session{c: c, id: opened.ID, ttl: time.Duration(opened.TTL), done: make(chan struct{})}
	keepAliveCtx, stop := context.WithCancel(c.ctx)
	s.stop = stop
	c.heartbeats.Go(func() { s.keepAliveLoop(keepAliveCtx) })
	return s, nil
}

// ID names the session.
func (s *Session) ID() txn.SessionID { return s.id }

// TTL is what was granted: the coordinator ends the session when it has heard nothing for so long.
func (s *Session) TTL() time.Duration { return s.ttl }

// Done is closed when the session is over: it was closed, the coordinator says that it has ended, or the client was closed.
// As long as no coordinator answers, it may live: a new leader counts its silence from the beginning.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err is nil as long as the session is not known to be over, and then says why: [txn.ErrNotFound] when the coordinator does
// not have it any more, with [txn.ErrSessionExpired] when that did not hear it; [txn.ErrNotActive] after Close;
// [txn.ErrUnavailable] when the client was closed.
func (s *Session) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Close ends the session. What was begun in it and is undecided is rolled back. After an error that is
// [txn.ErrUnavailable] the coordinator does so by itself, when the TTL is over. It may be called again.
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

// keepAliveLoop sends signs of life until ctx ends, or the coordinator says that it is too late.
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

// WithSession makes what the session's client begins with the context part of the session, be it by [Client.Begin] or
// [txn.Run], unless [txn.Options] name another. With nil it is part of none.
func WithSession(ctx context.Context, s *Session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

// sessionFrom gives the session of c that the context carries; nil when it carries none.
func sessionFrom(ctx context.Context, c *Client) *Session {
	if s, _ := ctx.Value(sessionKey{}).(*Session); s != nil && s.c == c {
		return s
	}
	return nil
}
