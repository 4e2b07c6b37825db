package client_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
)

func openSession(t *testing.T, c *client.Client, ttl time.Duration) *client.Session {
	t.Helper()
	s, err := c.OpenSession(t.Context(), client.SessionOptions{Name: "test", TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// over waits until a session has ended, and returns why.
func over(t *testing.T, s *client.Session) error {
	t.Helper()
	select {
	case <-s.Done():
		return s.Err()
	case <-time.After(10 * time.Second):
		t.Fatal("the session is not over after 10s")
		return nil
	}
}

// TestSessionKeepsItselfAlive: three keep-alives are sent per TTL, until the coordinator
// reports the end of the session.
func TestSessionKeepsItselfAlive(t *testing.T) {
	fake := servertest.New()
	var beats atomic.Int64
	enough := make(chan struct{})
	fake.Before = func(_ context.Context, op string, _ txn.ID) error {
		if op == "keep alive" && beats.Add(1) == 4 {
			close(enough)
		}
		return nil
	}
	c := open(t, client.Config{Address: serve(t, fake)})
	started := time.Now()
	s := openSession(t, c, time.Second)
	select {
	case <-enough:
	case <-time.After(10 * time.Second):
		t.Fatalf("%d signs of life in 10s", beats.Load())
	}
	if took := time.Since(started); took < 4*s.TTL()/3 || s.TTL() != time.Second || s.Err() != nil {
		t.Errorf("4 signs of life in %v; TTL %v, %v", took, s.TTL(), s.Err())
	}
	fake.ExpireSession(s.ID())
	if err := over(t, s); !errors.Is(err, txn.ErrSessionExpired) || !errors.Is(err, txn.ErrNotFound) {
		t.Errorf("expired: %v", err)
	}
	if err := s.Close(t.Context()); !errors.Is(err, txn.ErrSessionExpired) {
		t.Errorf("close of an expired session: %v", err)
	}
}

// TestSessionSurvivesDeafCoordinators: the session stays open as long as no coordinator
// reports its end.
func TestSessionSurvivesDeafCoordinators(t *testing.T) {
	fake := servertest.New()
	var deaf atomic.Bool
	heard := make(chan struct{}, 100)
	fake.Before = func(_ context.Context, op string, _ txn.ID) error {
		switch {
		case op != "keep alive":
			return nil
		case deaf.Load():
			return &txn.Error{Op: op, Err: txn.ErrUnavailable, Detail: "no leader"}
		}
		heard <- struct{}{}
		return nil
	}
	c := open(t, client.Config{Address: serve(t, fake)})
	s := openSession(t, c, time.Second)
	deaf.Store(true)
	select {
	case <-s.Done():
		t.Fatalf("over after too little silence: %v", s.Err())
	case <-time.After(2 * time.Second):
	}
	for len(heard) > 0 {
		<-heard
	}
	deaf.Store(false)
	select {
	case <-heard:
	case <-time.After(10 * time.Second):
		t.Fatal("no sign of life when it is heard again")
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := over(t, s); !errors.Is(err, txn.ErrNotActive) {
		t.Errorf("closed: %v", err)
	}
}

// TestWithSession: transactions begun with the context are part of the session, for the
// client that opened it, unless the options say otherwise.
func TestWithSession(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		cfg.Address = serve(t, servertest.New())
		c := open(t, cfg)
		one, other := openSession(t, c, time.Minute), openSession(t, c, time.Minute)
		ctx := client.WithSession(t.Context(), one)
		begun := func(ctx context.Context, c *client.Client, o txn.Options) txn.SessionID {
			t.Helper()
			b, err := c.Begin(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			i, err := c.Get(t.Context(), b.ID)
			if err != nil {
				t.Fatal(err)
			}
			return i.Session
		}
		if got := begun(ctx, c, txn.Options{}); got != one.ID() {
			t.Errorf("with the context: %v; want %v", got, one.ID())
		}
		if got := begun(ctx, c, txn.Options{Session: other.ID()}); got != other.ID() {
			t.Errorf("with options: %v; want %v", got, other.ID())
		}
		if got := begun(t.Context(), c, txn.Options{}); !got.IsZero() {
			t.Errorf("with another context: %v", got)
		}
		if got := begun(ctx, open(t, cfg), txn.Options{}); !got.IsZero() {
			t.Errorf("with another client: %v", got)
		}
		err := txn.Run(ctx, c, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
			if i, err := c.Get(ctx, tx.ID()); err != nil || i.Session != one.ID() {
				t.Errorf("txn.Run: %v, %v; want %v", i.Session, err, one.ID())
			}
			return one.Close(ctx)
		})
		if !errors.Is(err, txn.ErrRolledBack) {
			t.Errorf("its session was closed meanwhile: %v", err)
		}
	})
}

// TestCloseOfTheClientEndsSessions: their keep-alives stop.
func TestCloseOfTheClientEndsSessions(t *testing.T) {
	c := open(t, client.Config{Address: serve(t, servertest.New())})
	s := openSession(t, c, time.Minute)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := over(t, s); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if err := s.Close(t.Context()); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("close: %v", err)
	}
}
