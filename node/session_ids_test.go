package node

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// TestRestartWhileASessionIsDrained: what is left of an ended session is rolled back without any call from outside.
func TestRestartWhileASessionIsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		n, err := tryOpen(t, dir, slow)
		if err != nil {
			t.Fatal(err)
		}
		s := openSession(t, n, time.Hour)
		crowd := make([]txn.ID, 12_000)
		var wg sync.WaitGroup
		for i := range crowd {
			wg.Go(func() { crowd[i] = beginIn(t, n, s.ID) })
		}
		wg.Wait()
		if err := n.CloseSession(context.Background(), s.ID); err != nil {
			t.Fatal(err)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		n = open(t, dir, slow)
		pass(2 * time.Second)
		if s, _ := n.Admin().Status(context.Background()); s.Undecided != 0 || s.RolledBack != uint64(len(crowd)) {
			t.Errorf("%d open, %d rolled back", s.Undecided, s.RolledBack)
		}
	})
}

// TestAnIDThatIsUsedAgain: a session does not expire for lack of keep-alives of the one that had
// its id before, though the client that closed that one got no answer.
func TestAnIDThatIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, t.TempDir(), func(c *Config) { slow(c); c.Retention = time.Second })
		s := openSession(t, n, 4*time.Second)
		if res, err := n.proposals.Propose(context.Background(), machine.CloseSession{ID: s.ID}); err != nil || res.Code != machine.OK {
			t.Fatalf("closed: %v, %v", res.Code, err)
		}
		pass(1500 * time.Millisecond)
		if _, err := n.Begin(context.Background(), txn.Options{Timeout: time.Hour}); err != nil { // an entry, in which it is forgotten
			t.Fatal(err)
		}
		again, err := n.OpenSession(context.Background(), txn.SessionOptions{ID: s.ID, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		if _, err := n.KeepAlive(context.Background(), again.ID); err != nil {
			t.Errorf("10s after its opening, of %v: %v", again.TTL, err)
		}
	})
}
