package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// The settings of the session of TestSessionOverAFailover, and of its transaction.
const (
	sessionTTL     = 2 * time.Second
	sessionTimeout = time.Hour
	// sessionSlack is how much later than an eighth of the TTL the rollback of an expired session
	// may be visible: the time to commit an entry and to roll one branch back, on a busy machine.
	sessionSlack = 5 * time.Second
)

// TestSessionOverAFailover: the leader is killed, and a session stays open as long as its client
// keeps it alive; then the client stops, and its locks are released when the TTL has passed, an
// hour before the transaction's own timeout.
func TestSessionOverAFailover(t *testing.T) {
	b := newTestCluster(t)
	b.form()
	path := filepath.Join(b.dir, "till.ledger")
	b.must(b.m.Admin().AddParticipant(t.Context(), admin.Participant{Name: "till", Kind: ledger.Kind, Settings: map[string]string{"path": path}}, "", ""))
	till := ledger.New("till", path)

	c := b.dial(waitTimeout)
	s, err := c.OpenSession(t.Context(), client.SessionOptions{Name: "till", TTL: sessionTTL})
	b.must(err)
	begun, err := c.Begin(client.WithSession(t.Context(), s), txn.Options{Name: "of a session", Timeout: sessionTimeout})
	b.must(err)
	_, err = txn.RunIn(t.Context(), c, begun.ID, func(ctx context.Context, tx *txn.Tx) error { return till.Add(ctx, tx, "alice", 1) })
	b.must(err)

	leader, _ := b.leader()
	old, err := leader.status(t.Context())
	b.must(err)
	leader.Kill()
	killed := time.Now()
	var elected admin.Status
	for time.Since(killed) < 2*sessionTTL || elected.Term <= old.Term {
		b.eventually(waitTimeout, "somebody leads", func(ctx context.Context) (err error) {
			elected, err = b.m.Admin().Status(ctx)
			return err
		})
		b.must(b.checkSessionAlive(s, begun.ID, till))
		if !rig.Sleep(t.Context(), sessionTTL/10) {
			t.Fatal("the test has no time left")
		}
	}
	b.must(s.Err())
	b.events.Note("%s, which led, was killed; %s leads", old.Node, elected.LeaderID)

	b.must(c.Close()) // as if its process had crashed: the session is not closed
	left := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	info, err := b.m.Wait(ctx, begun.ID, txn.UntilFinished)
	took := time.Since(left)
	b.must(err)
	if info.State != txn.RolledBack || info.Cause != txn.CauseSessionExpired {
		t.Errorf("%v by %v; want %v by %v", info.State, info.Cause, txn.RolledBack, txn.CauseSessionExpired)
	}
	// The last keep-alive may be a third of the TTL older than the end of the client.
	if least, most := sessionTTL*2/3, sessionTTL*9/8+sessionSlack; took < least || took > most {
		t.Errorf("rolled back %v after the client went away; want %v to %v", took, least, most)
	}
	if _, err := till.Local(t.Context(), "add alice 5"); err != nil {
		t.Errorf("the account after the rollback: %v", err)
	}
	if all, err := till.Balances(t.Context()); err != nil || all["alice"] != 5 {
		t.Errorf("balances %v, %v; want 5, of somebody else alone", all, err)
	}
	t.Logf("TTL %v, timeout %v; rolled back %v after the client went away", sessionTTL, sessionTimeout, took.Round(time.Millisecond))
}

// checkSessionAlive reports whether a session is open and its transaction undecided, with its
// account locked.
func (b *testCluster) checkSessionAlive(s *client.Session, id txn.ID, till *ledger.Ledger) error {
	ctx, cancel := context.WithTimeout(b.t.Context(), waitTimeout)
	defer cancel()
	info, err := b.m.Get(ctx, id)
	if err != nil {
		return err
	}
	open, err := b.m.Admin().Sessions(ctx, admin.SessionFilter{})
	if err != nil {
		return err
	}
	if info.State.Decided() || info.Session != s.ID() || time.Duration(info.ExpiresIn) < sessionTimeout/2 || len(open) != 1 || open[0].ID != s.ID() || open[0].Transactions != 1 {
		return fmt.Errorf("a client that lives: %v by %v, %v left; open sessions: %+v", info.State, info.Cause, info.ExpiresIn, open)
	}
	if _, err := till.Local(ctx, "add alice 1"); err == nil || !strings.Contains(err.Error(), "locked") {
		return errors.Join(errors.New("the account that it has changed is not locked"), err)
	}
	return nil
}
