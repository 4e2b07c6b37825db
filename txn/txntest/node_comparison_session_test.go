package txntest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

func session(n int) txn.SessionID { return txn.SessionID(id(n)) }

// open opens a session some microseconds after a millisecond, each time others. A belt rotates
// from the opening of its first session on, and every other call comes at a whole millisecond:
// so none comes in the instant of a rotation, where either order is right.
func (s *scenario) open(o txn.SessionOptions) {
	offset := time.Duration(len(s.calls)+1) * time.Microsecond
	s.add(fmt.Sprintf("open %+v", o), func(ctx context.Context, m coordinator) (any, error) {
		<-time.After(offset)
		opened, err := m.OpenSession(ctx, o)
		return timeless(opened), err
	})
}

func (s *scenario) keepAlive(id txn.SessionID) {
	s.add(fmt.Sprintf("keep alive %v", id), func(ctx context.Context, m coordinator) (any, error) {
		alive, err := m.KeepAlive(ctx, id)
		return timeless(alive), err
	})
}

func (s *scenario) close(id txn.SessionID) {
	s.add(fmt.Sprintf("close %v", id), func(ctx context.Context, m coordinator) (any, error) { return nil, m.CloseSession(ctx, id) })
}

func (s *scenario) sessions(f admin.SessionFilter) {
	s.add(fmt.Sprintf("sessions %+v", f), func(ctx context.Context, m coordinator) (any, error) {
		all, err := m.Sessions(ctx, f)
		for i := range all {
			all[i] = timeless(all[i])
		}
		return all, err
	})
}

// timeless leaves the wall clock out.
func timeless(s admin.ClientSession) admin.ClientSession {
	s.Opened = time.Time{}
	return s
}

// drawSession adds a call about one of two sessions, of one that is unknown, or of none,
// or enough time for some to expire.
func (s *scenario) drawSession(t *rapid.T) {
	id := session(rapid.SampledFrom([]int{1, 1, 1, 1, 2, 2, 2, 3, 0}).Draw(t, "session"))
	switch rapid.IntRange(0, 9).Draw(t, "session call") {
	case 0, 1:
		if id.IsZero() || id == session(3) {
			id = session(2)
		}
		s.open(txn.SessionOptions{
			ID: id, Name: rapid.SampledFrom([]string{"", "", "", "app", strings.Repeat("x", 200)}).Draw(t, "name"),
			TTL: rapid.SampledFrom([]time.Duration{0, time.Nanosecond, time.Second, time.Second, time.Second, 1500 * time.Millisecond}).Draw(t, "TTL"),
		})
	case 2, 3, 4, 5:
		s.keepAlive(id)
	case 6:
		s.close(id)
	case 7:
		s.sessions(admin.SessionFilter{Ended: rapid.Bool().Draw(t, "ended"), Limit: rapid.IntRange(-1, 2).Draw(t, "limit")})
	default:
		s.pause(rapid.SampledFrom([]time.Duration{60 * time.Millisecond, 130 * time.Millisecond, 400 * time.Millisecond, 900 * time.Millisecond, 1300 * time.Millisecond}).Draw(t, "silence"))
	}
}

// TestSessionsAnswerAsThoseOfANode: a scenario with everything that can happen to sessions.
func TestSessionsAnswerAsThoseOfANode(t *testing.T) {
	s := &scenario{}
	bank := []txn.Enlistment{{Participant: "bank"}}
	s.open(txn.SessionOptions{ID: session(1), Name: "lively", TTL: time.Second})
	s.pause(40 * time.Millisecond)
	s.open(txn.SessionOptions{ID: session(2), Name: "silent", TTL: time.Second})
	s.open(txn.SessionOptions{ID: session(3), Name: "closed", TTL: 3 * time.Second})
	s.open(txn.SessionOptions{ID: session(3), Name: "another", TTL: 3 * time.Second})
	for i := range 3 {
		s.begin(txn.Options{ID: id(i + 1), Timeout: time.Hour, Branches: bank, Session: session(i + 1)})
	}
	s.begin(txn.Options{ID: id(4), Session: session(9)})
	s.sessions(admin.SessionFilter{})
	s.close(session(3))
	s.close(session(3))
	s.keepAlive(session(3))
	for range 5 {
		s.pause(260 * time.Millisecond)
		s.keepAlive(session(1))
		s.get(id(2))
	}
	s.begin(txn.Options{ID: id(5), Session: session(2)})
	s.add("commit of the silent", func(ctx context.Context, m coordinator) (any, error) {
		return m.Commit(ctx, id(2), txn.CommitRequest{Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VotePrepared}}})
	})
	s.open(txn.SessionOptions{ID: session(2), Name: "silent", TTL: time.Second})
	s.close(session(2))
	s.keepAlive(session(2))
	s.sessions(admin.SessionFilter{Ended: true, Limit: 2})
	for i := range 3 {
		s.get(id(i + 1))
	}
	// The belt of the closed session has stopped meanwhile, and starts anew.
	s.open(txn.SessionOptions{ID: session(5), TTL: 4 * time.Second})
	s.begin(txn.Options{ID: id(7), Timeout: time.Hour, Session: session(5)})
	s.pause(5 * time.Second)
	s.get(id(7))
	s.get(id(1))
	// So does the belt of the expired sessions.
	s.open(txn.SessionOptions{ID: session(4), TTL: time.Second})
	s.begin(txn.Options{ID: id(6), Timeout: time.Hour, Session: session(4)})
	s.pause(1120 * time.Millisecond)
	s.get(id(6))
	s.pause(5 * time.Millisecond)
	s.get(id(6))

	told := s.compare(t, t, t.TempDir())
	for what, times := range map[string]int{"session-expired": 6, "closed at tick": 1, "other options": 1} {
		n := len(slices.DeleteFunc(slices.Clone(told), func(line string) bool { return !strings.Contains(line, what) }))
		if n < times {
			t.Errorf("%q is in %d answers, want %d at least: nothing is tried here", what, n, times)
		}
	}
}
