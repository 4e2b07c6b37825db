package node

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

func openSession(t *testing.T, n *Node, ttl time.Duration) admin.ClientSession {
	t.Helper()
	s, err := n.OpenSession(context.Background(), txn.SessionOptions{Name: "app", TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func beginIn(t *testing.T, n *Node, s txn.SessionID) txn.ID {
	t.Helper()
	b, err := n.Begin(context.Background(), txn.Options{Timeout: 24 * time.Hour, Session: s})
	if err != nil {
		t.Fatal(err)
	}
	return b.ID
}

// TestSilenceRollsBack: a session without keep-alives expires after its TTL, not earlier and at
// most an eighth of it later, whatever the phase of the belt; and its undecided transactions are
// rolled back, with that cause.
func TestSilenceRollsBack(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 1500 * time.Millisecond, 16 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			n := open(t, t.TempDir(), func(c *Config) { slow(c); c.Checkpoint = time.Hour })
			openSession(t, n, ttl) // keeps the belt turning
			granted := txn.GrantedTTL(ttl)
			for range 5 {
				pass(granted * 7 / 50)
				start := time.Now()
				s := openSession(t, n, ttl)
				if time.Duration(s.TTL) != granted || s.State != txn.SessionOpen {
					t.Fatalf("%v: granted %v, %v", ttl, s.TTL, s.State)
				}
				id := beginIn(t, n, s.ID)
				if _, err := n.Commit(context.Background(), beginIn(t, n, s.ID), txn.CommitRequest{}); err != nil {
					t.Fatal(err)
				}
				pass(granted / 2)
				for range 3 {
					start = time.Now()
					if _, err := n.KeepAlive(context.Background(), s.ID); err != nil {
						t.Fatal(err)
					}
					pass(granted * 9 / 10)
				}
				info, err := n.Get(context.Background(), id)
				if err != nil || info.State != txn.Active || info.Session != s.ID {
					t.Fatalf("%v: after %v of silence: %v, %v", ttl, granted*9/10, info.State, err)
				}
				wait, cancel := context.WithTimeout(t.Context(), granted)
				if info, err = n.Wait(wait, id, txn.UntilFinished); err != nil || info.Cause != txn.CauseSessionExpired {
					t.Fatalf("%v: %v by %v, %v", ttl, info.State, info.Cause, err)
				}
				cancel()
				if took := time.Since(start); took < granted || took > granted+granted/8 {
					t.Errorf("%v: expired after %v of silence; want %v and at most %v more", ttl, took, granted, granted/8)
				}
				for name, err := range map[string]error{
					"keep alive": second(n.KeepAlive(context.Background(), s.ID)),
					"close":      n.CloseSession(context.Background(), s.ID),
					"begin":      second(n.Begin(context.Background(), txn.Options{Session: s.ID})),
					"open":       second(n.OpenSession(context.Background(), txn.SessionOptions{ID: s.ID, Name: "app", TTL: ttl})),
				} {
					if !errors.Is(err, txn.ErrNotFound) || !errors.Is(err, txn.ErrSessionExpired) {
						t.Errorf("%s of an expired session: %v", name, err)
					}
				}
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

// TestNothingSilentNothingWritten: keep-alives write nothing, and a node without sessions does not wake.
func TestNothingSilentNothingWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, t.TempDir(), slow)
		s := openSession(t, n, time.Second)
		before, _ := n.Admin().Status(context.Background())
		for range 100 {
			pass(300 * time.Millisecond)
			if _, err := n.KeepAlive(context.Background(), s.ID); err != nil {
				t.Fatal(err)
			}
		}
		after, _ := n.Admin().Status(context.Background())
		if after.Entries != before.Entries || after.Sessions != 1 {
			t.Errorf("100 signs of life wrote %d entries; %d sessions are open", after.Entries-before.Entries, after.Sessions)
		}
	})
}

// TestOnlyTheLogSaysThatASessionHasExpired: as long as the entry that expires it is in flight,
// which the next leader may never receive, the expiry is not reported.
func TestOnlyTheLogSaysThatASessionHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, t.TempDir(), slow)
		s := openSession(t, n, time.Second)
		n.sessionExpirer().Drop([]machine.SessionLease{{ID: s.ID, TTL: time.Second}}) // it has fallen off, and the log has not been informed
		if _, err := n.KeepAlive(t.Context(), s.ID); !errors.Is(err, txn.ErrUnavailable) || errors.Is(err, txn.ErrNotFound) {
			t.Errorf("while its end is on its way: %v", err)
		}
		if _, err := n.proposeCommand(t.Context(), "expire", machine.ExpireSessions{IDs: []txn.SessionID{s.ID}}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := n.KeepAlive(t.Context(), s.ID); !errors.Is(err, txn.ErrSessionExpired) || errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("after its end: %v", err)
		}
	})
}

// TestCloseSession: it ends what is undecided at once, and may be repeated.
func TestCloseSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, t.TempDir(), slow)
		s := openSession(t, n, time.Hour)
		id := beginIn(t, n, s.ID)
		for range 2 {
			if err := n.CloseSession(context.Background(), s.ID); err != nil {
				t.Fatal(err)
			}
		}
		if info := finished(t, n, id); info.Cause != txn.CauseClient {
			t.Errorf("%v by %v", info.State, info.Cause)
		}
		_, err := n.KeepAlive(context.Background(), s.ID)
		if !errors.Is(err, txn.ErrNotFound) || errors.Is(err, txn.ErrSessionExpired) {
			t.Errorf("keep alive: %v", err)
		}
		if _, err := n.KeepAlive(context.Background(), txn.SessionID{1}); !errors.Is(err, txn.ErrNotFound) {
			t.Errorf("keep alive of an unknown one: %v", err)
		}
		if all, err := n.Admin().Sessions(context.Background(), admin.SessionFilter{}); err != nil || len(all) != 0 {
			t.Errorf("open sessions: %v, %v", all, err)
		}
		if all, err := n.Admin().Sessions(context.Background(), admin.SessionFilter{Ended: true}); err != nil || len(all) != 1 || all[0].State != txn.SessionClosed {
			t.Errorf("all sessions: %v, %v", all, err)
		}
	})
}

// TestACrowdOfOneSession: more transactions than an entry drains are all ended, one entry after the other, and none of them
// can be committed meanwhile.
func TestACrowdOfOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, t.TempDir(), slow)
		s := openSession(t, n, time.Second)
		crowd := make([]txn.ID, 10_000)
		var wg sync.WaitGroup
		for i := range crowd {
			wg.Go(func() { crowd[i] = beginIn(t, n, s.ID) })
		}
		wg.Wait()
		if err := n.CloseSession(context.Background(), s.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := n.Commit(context.Background(), crowd[len(crowd)-1], txn.CommitRequest{}); !errors.Is(err, txn.ErrRolledBack) {
			t.Errorf("a commit behind the end of its session: %v", err)
		}
		pass(time.Second)
		if s, _ := n.Admin().Status(context.Background()); s.Undecided != 0 || s.RolledBack != uint64(len(crowd)) {
			t.Errorf("%d open, %d rolled back", s.Undecided, s.RolledBack)
		}
	})
}

// TestRestartExtendsSessions: after a restart a node begins to count anew.
func TestRestartExtendsSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		n, err := tryOpen(t, dir, slow)
		if err != nil {
			t.Fatal(err)
		}
		s := openSession(t, n, 16*time.Second)
		id := beginIn(t, n, s.ID)
		pass(15 * time.Second)
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		n = open(t, dir, slow)
		start := time.Now()
		if info := finished(t, n, id); info.Cause != txn.CauseSessionExpired {
			t.Errorf("%v by %v", info.State, info.Cause)
		}
		if took := time.Since(start); took < 16*time.Second || took > 18*time.Second {
			t.Errorf("expired %v after the restart", took)
		}
	})
}

// TestFailoverExtendsSessions: a session that one leader has renewed is not expired by the next one
// before its TTL has passed again; one without keep-alives is, and neither is lost.
func TestFailoverExtendsSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openReplicas(t, 3, nil)
		defer c.close()
		first := c.leader()
		const ttl = 16 * time.Second
		lively, silent := openSession(t, c.nodes[first], ttl), openSession(t, c.nodes[first], ttl)
		kept, lost := beginIn(t, c.nodes[first], lively.ID), beginIn(t, c.nodes[first], silent.ID)
		pass(15 * time.Second)
		heard := time.Now()
		if _, err := c.nodes[first].KeepAlive(t.Context(), lively.ID); err != nil {
			t.Fatal(err)
		}
		c.stop(first)
		next := c.nodes[c.leader()]
		elected := time.Now()
		if elected.Sub(heard) > 10*time.Second {
			t.Fatalf("%v without a leader: nothing is tried here", elected.Sub(heard))
		}
		for {
			pass(time.Second)
			if _, err := next.KeepAlive(t.Context(), lively.ID); err != nil {
				t.Fatal(err)
			}
			info, err := next.Get(t.Context(), lost)
			if err != nil {
				t.Fatal(err)
			}
			if info.State == txn.Active {
				continue
			}
			if info.Cause != txn.CauseSessionExpired {
				t.Errorf("silent: %v by %v", info.State, info.Cause)
			}
			break
		}
		// It had no keep-alive for almost its TTL before the failover, and has another TTL since.
		if took := time.Since(elected); took < ttl-10*time.Second || took > ttl+ttl/8+2*time.Second {
			t.Errorf("expired %v after the election", took)
		}
		if took := time.Since(heard); took < ttl {
			t.Errorf("expired %v after the failover, before its TTL was over", took)
		}
		if info, err := next.Get(t.Context(), kept); err != nil || info.State != txn.Active {
			t.Errorf("heard all the time: %v by %v, %v", info.State, info.Cause, err)
		}
	})
}

// TestSessionsSurviveFailovers: a client that keeps sending keep-alives, whichever node leads, keeps
// its session.
func TestSessionsSurviveFailovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openReplicas(t, 3, nil)
		defer c.close()
		s := openSession(t, c.nodes[c.leader()], 4*time.Second)
		id := beginIn(t, c.nodes[c.leader()], s.ID)
		for range 4 {
			for range 10 {
				pass(time.Second)
				if _, err := c.nodes[c.leader()].KeepAlive(t.Context(), s.ID); err != nil {
					t.Fatal(err)
				}
			}
			down := c.leader()
			c.stop(down)
			if _, err := c.nodes[c.leader()].KeepAlive(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
			c.start(down)
		}
		if info, err := c.nodes[c.leader()].Get(t.Context(), id); err != nil || info.State != txn.Active {
			t.Errorf("%v, %v", info.State, err)
		}
	})
}
