package client_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
)

// TestWithNoSession: with a context without a session nothing is part of one, also if its
// parent carries one.
func TestWithNoSession(t *testing.T) {
	c := open(t, client.Config{Address: serve(t, servertest.New())})
	ctx := client.WithSession(client.WithSession(t.Context(), openSession(t, c, time.Minute)), nil)
	b, err := c.Begin(ctx, txn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if i, err := c.Get(t.Context(), b.ID); err != nil || !i.Session.IsZero() {
		t.Errorf("begun in %v, %v", i.Session, err)
	}
}

// TestCloseFindsItOver: the error is the expiry, also if Close is the first to learn it.
func TestCloseFindsItOver(t *testing.T) {
	fake := servertest.New()
	c := open(t, client.Config{Address: serve(t, fake)})
	s := openSession(t, c, time.Hour)
	fake.ExpireSession(s.ID())
	for range 2 {
		if err := s.Close(t.Context()); !errors.Is(err, txn.ErrSessionExpired) {
			t.Errorf("close: %v", err)
		}
		if err := over(t, s); !errors.Is(err, txn.ErrSessionExpired) || errors.Is(err, txn.ErrNotActive) {
			t.Errorf("over: %v", err)
		}
	}
}

// TestCloseMayBeRepeated: by a caller that had no answer to the first call.
func TestCloseMayBeRepeated(t *testing.T) {
	c := open(t, client.Config{Address: serve(t, servertest.New())})
	s := openSession(t, c, time.Hour)
	for range 2 {
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := c.CloseSession(t.Context(), s.ID()); err != nil {
			t.Errorf("close, by its id: %v", err)
		}
		if err := over(t, s); !errors.Is(err, txn.ErrNotActive) {
			t.Errorf("over: %v", err)
		}
	}
}

// TestRunTellsOfTheSession: the error names the session that ended the transaction, whatever
// the function failed with.
func TestRunTellsOfTheSession(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		fake := servertest.New()
		cfg.Address = serve(t, fake)
		c := open(t, cfg)
		s := openSession(t, c, time.Hour)
		failed := errors.New("connection lost")
		err := txn.Run(client.WithSession(t.Context(), s), c, txn.Options{}, func(context.Context, *txn.Tx) error {
			fake.ExpireSession(s.ID())
			return failed
		})
		if !errors.Is(err, txn.ErrRolledBack) || !errors.Is(err, failed) || !errors.Is(err, txn.ErrSessionExpired) {
			t.Errorf("%v", err)
		}
	})
}

// TestSessionsOpenedWhileTheClientCloses: each is ended, whether it was opened just before
// the client was closed or too late.
func TestSessionsOpenedWhileTheClientCloses(t *testing.T) {
	addr := serve(t, servertest.New())
	for range 100 {
		c, err := client.Dial(addr)
		if err != nil {
			t.Fatal(err)
		}
		openSession(t, c, time.Hour) // for Close to wait for
		var openers sync.WaitGroup
		var mu sync.Mutex
		var opened []*client.Session
		begun := make(chan struct{}, 4)
		for range 4 {
			openers.Go(func() {
				for n := 0; ; n++ {
					s, err := c.OpenSession(context.Background(), client.SessionOptions{TTL: time.Hour})
					if err != nil {
						return
					}
					mu.Lock()
					opened = append(opened, s)
					mu.Unlock()
					if n == 0 {
						begun <- struct{}{}
					}
				}
			})
		}
		<-begun
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		openers.Wait()
		for _, s := range opened {
			if err := s.Err(); !errors.Is(err, txn.ErrUnavailable) {
				t.Fatalf("when Close has returned: %v", err)
			}
		}
	}
}
