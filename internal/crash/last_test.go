package crash

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/txn"
)

// lastPrefix begins the steps of an application with two branches, of which the last decides.
const lastPrefix = "last: "

// lastSteps are the steps at which that application is killed, decided whether the last branch has committed by then, prepared
// whether the other one is prepared then.
var lastSteps = []struct {
	step              string
	prepared, decided bool
}{
	{step: lastPrefix + "named, not appointed"},
	{step: lastPrefix + "appointed, not prepared"},
	{step: lastPrefix + "prepared, not decided", prepared: true},
	{step: lastPrefix + "decided, not followed", prepared: true, decided: true},
	{step: lastPrefix + "followed, not reported", decided: true},
}

// lastClient kills its process at a step of the transaction that is watched.
type lastClient struct {
	*client.Client

	step    string
	watched *atomic.Bool
}

func (d *lastClient) at(step string) {
	if d.watched.Load() && d.step == lastPrefix+step {
		die()
	}
}

func (d *lastClient) Enlist(ctx context.Context, id txn.ID, e txn.Enlistment) (txn.Branch, error) {
	d.at("named, not appointed")
	b, err := d.Client.Enlist(ctx, id, e)
	d.at("appointed, not prepared")
	return b, err
}

func (d *lastClient) ReportCompletion(ctx context.Context, id txn.ID, reports ...txn.CompletionReport) error {
	d.at("followed, not reported")
	return d.Client.ReportCompletion(ctx, id, reports...)
}

// lastConn is a connection to a database. What is sent over it tells how far the commit is.
type lastConn struct {
	net.Conn

	d *lastClient
}

func (c lastConn) Write(b []byte) (int, error) {
	if commitsInOnePhase(b) {
		c.d.at("prepared, not decided")
	}
	if bytes.Contains(b, []byte("COMMIT PREPARED")) {
		c.d.at("decided, not followed")
	}
	return c.Conn.Write(b)
}

// commitsInOnePhase reports whether a message commits: by a text, or by the statement that the connection has prepared, which is
// bound to the portal without a name.
func commitsInOnePhase(message []byte) bool {
	prepared := fmt.Sprintf("\x00txmgr_%x\x00", sha256.Sum224([]byte("COMMIT")))
	return bytes.Contains(message, []byte("; COMMIT\x00")) || bytes.Contains(message, []byte(prepared))
}

// runLast makes a transaction, by which the client learns to name the next, and dies in that.
func runLast(ctx context.Context, c *client.Client, step string) error {
	d := &lastClient{Client: c, step: step, watched: new(atomic.Bool)}
	l, err := openLedgers(ctx, os.Getenv(sessionClientLeft), os.Getenv(sessionClientRight), func(c net.Conn) net.Conn { return lastConn{c, d} })
	if err != nil {
		return err
	}
	l.lastDecides = true
	if err := l.transfer(ctx, d, 0, func(*txn.Tx, string) error { return nil }); err != nil {
		return err
	}
	return l.transfer(ctx, d, 10, func(tx *txn.Tx, at string) error {
		if at == "left" {
			fmt.Println(tx)
			if err := tx.AwaitBegin(ctx); err != nil {
				return err
			}
			d.watched.Store(true)
		}
		return nil
	})
}

// TestApplicationDiesBeforeOrAfterTheLastDecides: an application whose last branch decides is killed at each step. Both databases end as
// that branch did, and both rows are free soon afterwards.
func TestApplicationDiesBeforeOrAfterTheLastDecides(t *testing.T) {
	for _, s := range lastSteps {
		t.Run(s.step, func(t *testing.T) {
			c := newCoordinator(t)
			c.start("")
			b := newBank(t, c)
			b.makeMarkers()
			id := b.runUntilKilled(c, s.step)
			if _, prepared, _, err := b.state(t.Context()); err != nil || (prepared > 0) != s.prepared {
				t.Errorf("%d branches are prepared; want one: %v; %v", prepared, s.prepared, err)
			}
			if got := b.awaitFinished(id, true); (got == txn.Committed) != s.decided {
				t.Errorf("ended %v; the last branch had committed: %v", got, s.decided)
			}
			for _, at := range []string{"left", "right"} {
				b.exec(b.connect(at), "SET lock_timeout = '1min'; UPDATE account SET balance = balance WHERE id = 1")
			}
		})
	}
}

// makeMarkers has the coordinator create its marker tables: without them no branch decides.
func (b *bank) makeMarkers() {
	for _, at := range []string{"left", "right"} {
		must(b.t, b.m.Admin().TestParticipant(b.t.Context(), at))
	}
}

// TestCoordinatorDiesWhenTheLastDecides, in the second transaction, since the first is begun, and both its branches are enlisted, by calls: the coordinator is killed and restarted at each step of a transaction whose last
// branch decides. The application sees nothing of that.
func TestCoordinatorDiesWhenTheLastDecides(t *testing.T) {
	for _, failpoint := range []string{"begin applied:2", "enlist received:3", "enlist applied:3", "done received:2", "done applied:2"} {
		t.Run(failpoint, func(t *testing.T) {
			c := newCoordinator(t)
			c.start("")
			b := newBank(t, c)
			b.makeMarkers()
			l, err := openLedgers(t.Context(), b.dsn["left"], b.dsn["right"])
			must(t, err)
			l.lastDecides = true
			if !strings.HasPrefix(failpoint, "done") { // a report that is lost is made up for at the deadline
				l.timeout = 5 * time.Minute
			}
			c.kill()
			c.start(failpoint)
			must(t, l.transfer(t.Context(), b.m, 0, func(tx *txn.Tx, _ string) error { return tx.AwaitBegin(t.Context()) }))
			var tx *txn.Tx
			result := make(chan error, 1)
			go func() {
				result <- l.transfer(context.WithoutCancel(t.Context()), b.m, 10, func(now *txn.Tx, _ string) error {
					tx = now
					return tx.AwaitBegin(t.Context())
				})
			}()
			c.awaitFailpointExit(failpoint)
			c.start("")
			if err := <-result; err != nil {
				t.Errorf("transfer: %v", err)
			}
			if got := b.awaitFinished(tx.ID(), true); got != txn.Committed {
				t.Errorf("acknowledged as committed, ended %v", got)
			}
		})
	}
}

// TestTheLastDatabaseDiesInItsCommit: the database whose branch decides is killed when the commit has been sent. The other one
// keeps its branch until it is back, and then ends as that one did: the answer to the application is true.
func TestTheLastDatabaseDiesInItsCommit(t *testing.T) {
	c := newCoordinator(t)
	c.start("")
	b := newBank(t, c)
	b.makeMarkers()
	d := &lastClient{Client: b.m, step: "", watched: new(atomic.Bool)}
	l, err := openLedgers(t.Context(), b.dsn["left"], b.dsn["right"], func(c net.Conn) net.Conn {
		return &dyingServerConn{Conn: c, watched: d.watched, kill: func() { must(t, right.Kill(t.Context())) }}
	})
	must(t, err)
	l.lastDecides = true
	must(t, l.transfer(t.Context(), d, 0, func(*txn.Tx, string) error { return nil }))
	d.watched.Store(true)
	var tx *txn.Tx
	err = l.transfer(t.Context(), d, 10, func(now *txn.Tx, _ string) error { tx = now; return nil })
	if info, getErr := b.m.Get(t.Context(), tx.ID()); getErr != nil || inDoubt(err) && info.State.Decided() {
		t.Errorf("while the database that decides is down: %v, %v", info.State, getErr)
	}
	must(t, right.Start(t.Context()))
	got := b.awaitFinished(tx.ID(), true)
	switch {
	case err == nil && got != txn.Committed, err != nil && got == txn.Committed && !inDoubt(err):
		t.Errorf("ended %v; the application was told %v", got, err)
	}
	t.Logf("ended %v; the application was told: %v", got, err)
}

func inDoubt(err error) bool { return errors.Is(err, txn.ErrInDoubt) }

// dyingServerConn kills the server when a commit has been sent over it.
type dyingServerConn struct {
	net.Conn

	watched *atomic.Bool
	kill    func()
}

func (c *dyingServerConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if commitsInOnePhase(b) && c.watched.CompareAndSwap(true, false) {
		c.kill()
	}
	return n, err
}
