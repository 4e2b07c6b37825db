package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// freePort is an address where nothing listens.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func TestNothingListens(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		cfg.Address = "http://" + freePort(t)
		c := open(t, cfg)
		_, err := c.Begin(soon(t, 100*time.Millisecond), txn.Options{ID: newID(1)})
		if !errors.Is(err, txn.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), cfg.Address+": connection refused: no server listens at this address") || strings.Contains(err.Error(), "txmgr dev") {
			t.Errorf("begin: %v", err)
		}
		// Surely not sent: not in doubt.
		if _, err := c.Commit(soon(t, 100*time.Millisecond), newID(1), txn.CommitRequest{}); !errors.Is(err, txn.ErrUnavailable) || errors.Is(err, txn.ErrInDoubt) {
			t.Errorf("commit: %v", err)
		}
		cfg.FailFast = true
		started := time.Now()
		if _, err := open(t, cfg).Begin(t.Context(), txn.Options{}); !errors.Is(err, txn.ErrUnavailable) || time.Since(started) > 3*time.Second {
			t.Errorf("fail fast: %v after %v", err, time.Since(started))
		}
		if _, err := open(t, cfg).Wait(soon(t, 20*time.Second), newID(1), txn.UntilFinished); !errors.Is(err, txn.ErrUnavailable) || time.Since(started) > 3*time.Second {
			t.Errorf("wait, fail fast: %v after %v", err, time.Since(started))
		}
		cfg.FailFast, cfg.RequestTimeout = false, 100*time.Millisecond
		started = time.Now()
		if err := open(t, cfg).ReportCompletion(t.Context(), newID(1)); !errors.Is(err, txn.ErrUnavailable) || time.Since(started) > 3*time.Second {
			t.Errorf("default timeout: %v after %v", err, time.Since(started))
		}
	})
}

// Invariant 2: calls survive a restart of the server within their deadline.
func TestServerRestart(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		fake := servertest.New()
		ln := listen(t, "127.0.0.1:0")
		addr := ln.Addr().String()
		stop := serveOn(t, ln, fake, server.Config{})
		cfg.Address = "http://" + addr
		c := open(t, cfg)
		ctx := soon(t, 20*time.Second)
		var begun, failed atomic.Int64
		quit := make(chan struct{})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					select {
					case <-quit:
						return
					default:
					}
					b, err := c.Begin(ctx, txn.Options{})
					if err == nil {
						_, err = c.Commit(ctx, b.ID, txn.CommitRequest{})
					}
					if err != nil {
						failed.Add(1)
						t.Error(err)
						return
					}
					begun.Add(1)
				}
			})
		}
		for range 3 {
			n := begun.Load()
			waittest.Until(t, "progress", func() bool { return begun.Load() > n+20 || failed.Load() > 0 })
			stop()
			stop = serveOn(t, listen(t, addr), fake, server.Config{})
		}
		n := begun.Load()
		waittest.Until(t, "progress", func() bool { return begun.Load() > n+20 || failed.Load() > 0 })
		close(quit)
		wg.Wait()
		stop()
		if s, err := fake.Status(t.Context()); err != nil || int64(s.Committed) != begun.Load() {
			t.Errorf("%d committed, %d told so, %v", s.Committed, begun.Load(), err)
		}
	})
}

// lossy executes calls and then closes every connection before the answer.
type lossy struct {
	*servertest.Fake
	ln    *listener
	times atomic.Int64 // how often
	seen  atomic.Int64 // commits, votes, delegations
	gone  bool         // the listener goes too; set before the call
}

func (l *lossy) Commit(ctx context.Context, id txn.ID, c txn.CommitRequest) (txn.Outcome, error) {
	o, err := l.Fake.Commit(ctx, id, c)
	l.lose()
	return o, err
}

func (l *lossy) Begin(ctx context.Context, o txn.Options) (txn.BeginResult, error) {
	b, err := l.Fake.Begin(ctx, o)
	if l.times.Add(-1) >= 0 {
		l.ln.cut()
	}
	return b, err
}

func (l *lossy) Vote(ctx context.Context, id txn.ID, b txn.Votes) (txn.Outcome, error) {
	o, err := l.Fake.Vote(ctx, id, b)
	l.lose()
	return o, err
}

func (l *lossy) Delegate(ctx context.Context, id txn.ID, b txn.BranchID) (txn.Outcome, error) {
	o, err := l.Fake.Delegate(ctx, id, b)
	l.lose()
	return o, err
}

// lose closes the connections, as often as required.
func (l *lossy) lose() {
	l.seen.Add(1)
	if l.times.Add(-1) >= 0 {
		if l.gone {
			_ = l.ln.Close()
		}
		l.ln.cut()
	}
}

// After a lost answer the call is repeated with the same id.
func TestLostAnswers(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		ln := listen(t, "127.0.0.1:0")
		l := &lossy{Fake: servertest.New(), ln: ln}
		t.Cleanup(serveOn(t, ln, l, server.Config{}))
		cfg.Address = "http://" + ln.Addr().String()
		c := open(t, cfg)
		l.times.Store(2)
		b, err := c.Begin(t.Context(), txn.Options{Name: "once"})
		if err != nil {
			t.Fatal(err)
		}
		if all, err := l.List(t.Context(), admin.Filter{}); err != nil || len(all) != 1 || all[0].ID != b.ID {
			t.Errorf("begun: %v, %v", all, err)
		}
		l.times.Store(2)
		if o, err := c.Commit(t.Context(), b.ID, txn.CommitRequest{}); err != nil || o.State != txn.Committed {
			t.Errorf("commit: %v, %v", o, err)
		}
		if n := l.seen.Load(); n != 3 {
			t.Errorf("%d commits arrived, want 3", n)
		}
	})
}

// Invariant 3: a commit that arrived and whose answer cannot be had is in doubt.
func TestInDoubt(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		fake := servertest.New()
		arrived := make(chan string, 100)
		fake.Before = func(ctx context.Context, op string, _ txn.ID) error {
			arrived <- op
			<-ctx.Done()
			return ctx.Err()
		}
		ln := listen(t, "127.0.0.1:0")
		t.Cleanup(serveOn(t, ln, fake, server.Config{DrainTimeout: 5 * time.Second, CallTimeout: time.Second}))
		cfg.Address = "http://" + ln.Addr().String()
		c := open(t, cfg)

		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-arrived
			cancel()
		}()
		_, err := c.Commit(ctx, newID(1), txn.CommitRequest{})
		e := (*txn.Error)(nil)
		if !errors.Is(err, txn.ErrInDoubt) || errors.Is(err, txn.ErrUnavailable) || !errors.Is(err, context.Canceled) || !errors.As(err, &e) || e.ID != newID(1) || txn.CodeOf(err) != txn.CodeInDoubt {
			t.Errorf("commit, cancelled: %v", err)
		}
		if _, err := c.Commit(soon(t, 100*time.Millisecond), newID(1), txn.CommitRequest{}); !errors.Is(err, txn.ErrInDoubt) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("commit, too slow: %v", err)
		}
		if _, err := c.Begin(soon(t, 100*time.Millisecond), txn.Options{}); !errors.Is(err, txn.ErrUnavailable) || errors.Is(err, txn.ErrInDoubt) {
			t.Errorf("begin: %v", err)
		}
		if _, err := c.Rollback(soon(t, 100*time.Millisecond), newID(1), ""); !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("rollback: %v", err)
		}
	})
}

// The same when the connection is lost and the server does not come back.
func TestInDoubtWithoutAServer(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		ln := listen(t, "127.0.0.1:0")
		l := &lossy{Fake: servertest.New(), ln: ln}
		stop := serveOn(t, ln, l, server.Config{})
		t.Cleanup(stop)
		cfg.Address = "http://" + ln.Addr().String()
		c := open(t, cfg)
		b, err := c.Begin(t.Context(), txn.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l.gone = true
		l.times.Store(1)
		_, err = c.Commit(soon(t, 300*time.Millisecond), b.ID, txn.CommitRequest{})
		if !errors.Is(err, txn.ErrInDoubt) || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("%v", err)
		}
		if i, err := l.Get(t.Context(), b.ID); err != nil || i.State != txn.Committed {
			t.Errorf("%v, %v: the doubt is without reason", i.State, err)
		}
	})
}

// flaky answers err the first few times.
func flaky(f *servertest.Fake, op string, times int, err error) *[]time.Time {
	var mu sync.Mutex
	var tries []time.Time
	f.Before = func(_ context.Context, got string, _ txn.ID) error {
		if got != op {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		tries = append(tries, time.Now())
		if len(tries) <= times {
			return err
		}
		return nil
	}
	return &tries
}

// Invariant 3: a call that decides nothing is never in doubt, whatever a node answers.
func TestNoDoubtOfOtherCalls(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		fake := servertest.New()
		flaky(fake, "enlist", 1_000_000, &txn.Error{Op: "enlist", Err: txn.ErrInDoubt, Detail: "leadership lost"})
		cfg.Address = serve(t, fake)
		c := open(t, cfg)
		b, err := c.Begin(t.Context(), txn.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Enlist(soon(t, 100*time.Millisecond), b.ID, txn.Enlistment{Participant: "bank"})
		if errors.Is(err, txn.ErrInDoubt) || !errors.Is(err, txn.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || txn.CodeOf(err) != txn.CodeUnavailable {
			t.Errorf("enlist: %v, %v", txn.CodeOf(err), err)
		}
	})
}

func TestAnswersThatAreWorthATry(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		for name, answer := range map[string]error{
			"unavailable": &txn.Error{Op: "commit", Err: txn.ErrUnavailable, Detail: "no leader"},
			"in doubt":    &txn.Error{Op: "commit", Err: txn.ErrInDoubt, Detail: "leadership lost"},
		} {
			t.Run(name, func(t *testing.T) {
				fake := servertest.New()
				tries := flaky(fake, "commit", 3, answer)
				cfg.Address = serve(t, fake)
				c := open(t, cfg)
				b, err := c.Begin(t.Context(), txn.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if o, err := c.Commit(t.Context(), b.ID, txn.CommitRequest{}); err != nil || o.State != txn.Committed || len(*tries) != 4 {
					t.Errorf("%v, %v after %d tries", o, err, len(*tries))
				}
			})
		}
	})
}

// All other answers are final, at the first try.
func TestAnswersThatAreFinal(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		for _, sentinel := range []error{
			txn.ErrHeuristic, txn.ErrRolledBack, txn.ErrNotFound, txn.ErrConflict, txn.ErrNotActive, txn.ErrDenied, txn.ErrInvalid,
			fmt.Errorf("%w: %w", txn.ErrInDoubt, txn.ErrHeuristic), errors.New("disk on fire"),
		} {
			fake := servertest.New()
			tries := flaky(fake, "commit", 9, &txn.Error{Op: "commit", ID: newID(1), Err: sentinel})
			cfg.Address = serve(t, fake)
			_, err := open(t, cfg).Commit(t.Context(), newID(1), txn.CommitRequest{})
			if txn.CodeOf(err) != txn.CodeOf(sentinel) || len(*tries) != 1 || !strings.Contains(err.Error(), sentinel.Error()) {
				t.Errorf("%v: %v after %d tries", sentinel, err, len(*tries))
			}
		}
	})
}

func TestRetryAfterIsHonoured(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		fake := servertest.New()
		busy := &wire.RetryAfterError{After: 150 * time.Millisecond, Err: fmt.Errorf("%w: busy", txn.ErrUnavailable)}
		tries := flaky(fake, "begin", 2, busy)
		cfg.Address = serve(t, fake)
		c := open(t, cfg)
		if _, err := c.Begin(t.Context(), txn.Options{}); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			if pause := (*tries)[i+1].Sub((*tries)[i]); pause < busy.After {
				t.Errorf("tried again after %v", pause)
			}
		}
		// It is useless to wait for a retry after the deadline.
		*tries = nil
		started := time.Now()
		_, err := c.Begin(soon(t, 140*time.Millisecond), txn.Options{})
		if e := (*txn.Error)(nil); !errors.Is(err, txn.ErrUnavailable) || !errors.As(err, &e) || !strings.Contains(err.Error(), "busy") || time.Since(started) > 130*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(started))
		}
	})
}

// A server that has too many streams refuses a Pipe before it reads it: the calls are not in
// doubt, and there is no storm of retries.
func TestPipeIsRefused(t *testing.T) {
	ln := listen(t, "127.0.0.1:0")
	t.Cleanup(serveOn(t, ln, servertest.New(), server.Config{MaxStreams: 1}))
	address := "http://" + ln.Addr().String()
	first := open(t, client.Config{Address: address})
	b, err := first.Begin(t.Context(), txn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	second := open(t, client.Config{Address: address})
	started := time.Now()
	_, err = second.Commit(soon(t, 500*time.Millisecond), b.ID, txn.CommitRequest{})
	if !errors.Is(err, txn.ErrUnavailable) || errors.Is(err, txn.ErrInDoubt) || !strings.Contains(err.Error(), "1 calls of this kind") || time.Since(started) > 450*time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(started))
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, err := second.Commit(t.Context(), b.ID, txn.CommitRequest{}); err != nil {
		t.Errorf("when there is room: %v", err)
	}
}

// With several addresses, calls fail over to the next server.
func TestSeveralServers(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		fake := servertest.New()
		one, two := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
		stopOne := serveOn(t, one, fake, server.Config{})
		t.Cleanup(stopOne)
		t.Cleanup(serveOn(t, two, fake, server.Config{}))
		cfg.Address = "http://" + freePort(t) + ",http://" + one.Addr().String() + ",http://" + two.Addr().String()
		c := open(t, cfg)
		b, err := c.Begin(t.Context(), txn.Options{})
		if err != nil {
			t.Fatal(err)
		}
		stopOne()
		if _, err := c.Commit(t.Context(), b.ID, txn.CommitRequest{}); err != nil {
			t.Error(err)
		}
		if _, err := c.Admin().Status(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// With an ended context no call is made.
func TestContextThatHasEnded(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		cfg.Address = serve(t, servertest.New())
		c := open(t, cfg)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Begin(ctx, txn.Options{}); !errors.Is(err, context.Canceled) || !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("%v", err)
		}
		if _, err := c.Begin(t.Context(), txn.Options{}); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// Invariant 5, with calls in flight.
func TestClose(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		fake := servertest.New()
		arrived := make(chan struct{}, 100)
		fake.Before = func(ctx context.Context, op string, _ txn.ID) error {
			arrived <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		ln := listen(t, "127.0.0.1:0")
		t.Cleanup(serveOn(t, ln, fake, server.Config{CallTimeout: time.Second}))
		cfg.Address = "http://" + ln.Addr().String()
		c := open(t, cfg)
		failed := make(chan error, 3)
		go func() {
			_, err := c.Begin(t.Context(), txn.Options{})
			failed <- err
		}()
		<-arrived
		go func() {
			_, err := c.Commit(t.Context(), newID(1), txn.CommitRequest{})
			failed <- err
		}()
		<-arrived
		go func() {
			_, err := c.Wait(t.Context(), newID(1), txn.UntilFinished)
			failed <- err
		}()
		<-arrived
		for range 2 {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		for range 3 {
			if err := <-failed; !strings.Contains(err.Error(), "closed") || !errors.Is(err, txn.ErrUnavailable) && !errors.Is(err, txn.ErrInDoubt) {
				t.Errorf("%v", err)
			}
		}
		if _, err := c.Get(t.Context(), newID(1)); !errors.Is(err, txn.ErrUnavailable) || !strings.Contains(err.Error(), "closed") {
			t.Errorf("afterwards: %v", err)
		}
		for _, err := range c.Watch(t.Context(), admin.Filter{}) {
			if !errors.Is(err, txn.ErrUnavailable) {
				t.Errorf("watch afterwards: %v", err)
			}
		}
	})
}

// The error says that the other side is not a txmgr server, at once if that is possible.
func TestStrangers(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	silent := listen(t, "127.0.0.1:0") // accepts and does not answer
	defer silent.Close()
	defer silent.cut()
	go func() {
		for {
			if _, err := silent.Accept(); err != nil {
				return
			}
		}
	}()
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		for _, address := range []string{web.URL, "http://" + silent.Addr().String()} {
			cfg.Address = address
			c := open(t, cfg)
			started := time.Now()
			if _, err := c.Begin(soon(t, 200*time.Millisecond), txn.Options{}); err == nil || time.Since(started) > 3*time.Second {
				t.Errorf("%s: %v after %v", address, err, time.Since(started))
			}
		}
	})
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	cfg := client.Config{Address: "http://" + secure.Listener.Addr().String(), Unary: true}
	if _, err := open(t, cfg).Begin(t.Context(), txn.Options{}); !errors.Is(err, txn.ErrUnavailable) || !strings.Contains(err.Error(), "write https://") {
		t.Errorf("%v", err)
	}
	cfg.Address = web.URL
	if _, err := open(t, cfg).Begin(t.Context(), txn.Options{}); err == nil || !strings.Contains(err.Error(), "did not answer as a txmgr server") {
		t.Errorf("%v", err)
	}
}

// A retry cannot help against a wrong scheme: every call fails at once, over both transports
// and with both wrong schemes.
func TestWrongSchemeFailsAtOnce(t *testing.T) {
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	plain := serve(t, servertest.New())
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		for address, says := range map[string]string{
			"http://" + secure.Listener.Addr().String():  "write https://",
			strings.Replace(plain, "http:", "https:", 1): "write http://",
		} {
			for name, call := range map[string]func(context.Context, *client.Client) error{
				"begin": func(ctx context.Context, c *client.Client) error { _, err := c.Begin(ctx, txn.Options{}); return err },
				"wait": func(ctx context.Context, c *client.Client) error {
					_, err := c.Wait(ctx, newID(1), txn.UntilFinished)
					return err
				},
				"transfer leader": func(ctx context.Context, c *client.Client) error { return c.Admin().TransferLeader(ctx, "", "", "") },
				"ping":            func(ctx context.Context, c *client.Client) error { return c.Ping(ctx) },
			} {
				cfg.Address = address
				ctx := soon(t, time.Minute)
				err := call(ctx, open(t, cfg))
				if !errors.Is(err, txn.ErrUnavailable) || !strings.Contains(err.Error(), says) || ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s of %s: %v", name, address, err)
				}
			}
		}
		// One node with a wrong scheme does not keep a call from another node.
		cfg.Address = "http://" + secure.Listener.Addr().String() + "," + plain
		if _, err := open(t, cfg).Begin(t.Context(), txn.Options{}); err != nil {
			t.Errorf("with a second address: %v", err)
		}
	})
}
