package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// appFixture is a coordinator with a ledger and two services.
type appFixture struct {
	*node.Node
	bank *ledger.Ledger
	mail *storeFixture
}

func newAppFixture(t *testing.T, c callbacks) *appFixture {
	t.Helper()
	n, err := node.Open(t.Context(), node.Config{
		DataDir: t.TempDir(), Interval: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Drivers:  map[string]participant.Driver{Kind: Driver, ledger.Kind: ledger.Driver},
		Recovery: recovery.Config{BackoffMax: 50 * time.Millisecond, CallTimeout: 2 * time.Second, SweepEvery: 100 * time.Millisecond},
	})
	check(t, err)
	t.Cleanup(func() { check(t, n.Close()) })
	path := filepath.Join(t.TempDir(), "bank")
	co := &appFixture{Node: n, bank: ledger.New("bank", path), mail: onPostgres(t)}
	_, err = co.bank.Local(t.Context(), "set alice 100")
	check(t, err)
	check(t, n.Admin().AddParticipant(t.Context(), admin.Participant{Name: "bank", Kind: ledger.Kind, Settings: map[string]string{"path": path}}, "", ""))
	co.add(t, "mail", co.mail.handler(c, Options{}))
	co.add(t, "news", onLedger(t).handler(callbacks{}, Options{}))
	return co
}

func (c *appFixture) add(t *testing.T, name string, h http.Handler) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	check(t, c.Admin().AddParticipant(t.Context(), admin.Participant{
		Name: name, Kind: Kind, CoordinatorPrepares: true, Settings: map[string]string{"url": s.URL, "list": "/prepared"},
	}, "", ""))
}

// order takes 10 from alice and enlists the services.
func (c *appFixture) order(t *testing.T, o txn.Options) (txn.ID, error) {
	t.Helper()
	var id txn.ID
	err := txn.Run(t.Context(), c, o, func(ctx context.Context, tx *txn.Tx) error {
		id = tx.ID()
		if err := c.bank.Add(ctx, tx, "alice", -10); err != nil {
			return err
		}
		if err := New("news").Enlist(ctx, tx, nil); err != nil {
			return err
		}
		return New("mail").EnlistJSON(ctx, tx, map[string]string{"to": "alice"})
	})
	return id, err
}

func (c *appFixture) finished(t *testing.T, id txn.ID) txn.Info {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	i, err := c.Wait(ctx, id, txn.UntilFinished)
	check(t, err)
	return i
}

func (c *appFixture) wantBalance(t *testing.T, want int64) {
	t.Helper()
	if n, err := c.bank.Total(t.Context()); n != want || err != nil {
		t.Errorf("alice has %d, %v; want %d", n, err, want)
	}
}

func TestServicesCommitWithADatabase(t *testing.T) {
	payload := make(chan string, 2)
	c := newAppFixture(t, callbacks{
		prepare: func(_ context.Context, do work, b Branch) error { payload <- string(b.Payload); return do("held", 1) },
		commit:  func(_ context.Context, do work, b Branch) error { payload <- string(b.Payload); return do("sent", 1) },
	})
	id, err := c.order(t, txn.Options{})
	check(t, err)
	if i := c.finished(t, id); i.State != txn.Committed || i.Heuristic != 0 {
		t.Errorf("%+v", i)
	}
	c.wantBalance(t, 90)
	wantCounts(t, c.mail, map[string]int64{"held": 1, "sent": 1})
	for range 2 {
		if got := <-payload; got != `{"to":"alice"}` {
			t.Errorf("payload %s", got)
		}
	}
}

func TestServiceVotesNo(t *testing.T) {
	c := newAppFixture(t, callbacks{prepare: func(context.Context, work, Branch) error { return No("the mailbox is full") }})
	id, err := c.order(t, txn.Options{})
	if !errors.Is(err, txn.ErrVotedNo) || !errors.Is(err, txn.ErrRolledBack) {
		t.Errorf("got %v", err)
	}
	i := c.finished(t, id)
	if i.State != txn.RolledBack || i.Cause != txn.CauseVoteNo {
		t.Errorf("%+v", i)
	}
	if !strings.Contains(i.Reason, "the mailbox is full") || !strings.Contains(err.Error(), "the mailbox is full") {
		t.Errorf("nobody is told why: %q, %v", i.Reason, err)
	}
	c.wantBalance(t, 100)
}

// TestServiceThatHangsInPrepareIsRolledBackOnTime: when it continues and prepares, the sweep finds
// the branch and rolls it back.
func TestServiceThatHangsInPrepareIsRolledBackOnTime(t *testing.T) {
	c := newAppFixture(t, callbacks{prepare: func(ctx context.Context, do work, _ Branch) error {
		<-ctx.Done()
		return do("held", 1)
	}})
	began := time.Now()
	id, err := c.order(t, txn.Options{Timeout: 500 * time.Millisecond})
	if !errors.Is(err, txn.ErrTimedOut) || time.Since(began) > 10*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	if i := c.finished(t, id); i.State != txn.RolledBack || i.Cause != txn.CauseTimeout || i.Heuristic != 0 {
		t.Errorf("%+v", i)
	}
	c.wantBalance(t, 100)
	if n := c.mail.counts(t); len(n) != 0 {
		t.Errorf("counts %v", n)
	}
}

// TestDeletedRowIsHeuristic: the row of the barrier is deleted between the vote and the commit.
func TestDeletedRowIsHeuristic(t *testing.T) {
	c := newAppFixture(t, callbacks{})
	h := c.mail.handler(callbacks{}, Options{})
	c.add(t, "mail", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(HeaderPhase) == phaseCommit {
			c.mail.forget(t, r.Header.Get(HeaderXID))
		}
		h.ServeHTTP(w, r)
	}))
	id, err := c.order(t, txn.Options{})
	check(t, err)
	var i txn.Info
	waittest.NoError(t, func() (err error) {
		if i, err = c.Get(t.Context(), id); err == nil && i.Heuristic == 0 {
			err = errors.New("no heuristic outcome")
		}
		return err
	})
	if i.Heuristic != txn.HeuristicHazard {
		t.Errorf("heuristic %v", i.Heuristic)
	}
	c.wantBalance(t, 90)
}

// TestSweepFindsOrphans: an orphan, from a prepare that reached the service after
// its transaction had ended and its rollback was forgotten.
func TestSweepFindsOrphans(t *testing.T) {
	c := newAppFixture(t, callbacks{
		prepare:  func(_ context.Context, do work, _ Branch) error { return do("held", 1) },
		rollback: func(_ context.Context, do work, _ Branch) error { return do("given back", 1) },
	})
	status, err := c.Admin().Status(t.Context())
	check(t, err)
	r := serving(t, c.mail.handler(callbacks{prepare: func(_ context.Context, do work, _ Branch) error { return do("held", 1) }}, Options{}), nil)
	r.prefix = txn.ClusterPrefix(status.Cluster)
	b := newBranch()
	b.TX = txn.NewID(time.Now().Add(-48*time.Hour), [9]byte{1}) // longer ago than the log remembers
	b.XID = txn.XID(status.Cluster, b.TX, 1)
	mustVote(t, r, b, txn.VotePrepared)
	waittest.NoError(t, func() error {
		if c.mail.counts(t)["given back"] != 1 {
			return errors.New("still held")
		}
		return nil
	})
}

func TestPayloadThatIsNone(t *testing.T) {
	c := newAppFixture(t, callbacks{})
	tx, err := txn.Start(t.Context(), c, txn.Options{})
	check(t, err)
	if err := New("mail").EnlistJSON(t.Context(), tx, func() {}); !errors.Is(err, txn.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	check(t, New("mail").Enlist(t.Context(), tx, []byte("a")))
	check(t, New("mail").Enlist(t.Context(), tx, []byte("a")))
	if err := New("mail").Enlist(t.Context(), tx, []byte("b")); !errors.Is(err, txn.ErrConflict) {
		t.Errorf("got %v", err)
	}
	check(t, tx.Rollback(t.Context(), "test"))
	if err := New("mail").Enlist(t.Context(), tx, nil); !errors.Is(err, txn.ErrNotActive) {
		t.Errorf("got %v", err)
	}
}
