package machine

import (
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// beginInSessions begins n transactions in session 1, which it opens, each with a branch at
// bank.
func beginInSessions(m *Machine, n int, expiry survival.Tick) (ids []txn.ID) {
	m.Apply(Entry{Tick: 1, Commands: []Command{OpenSession{ID: sessionID(1), Name: "app", TTL: time.Second}}})
	for i := range n {
		ids = append(ids, testID(uint64(i+1)))
		m.Apply(Entry{Tick: 1, Commands: []Command{
			Begin{ID: ids[i], Timeout: time.Second, Expiry: expiry, Branches: []Branch{{Participant: "bank"}}, Session: sessionID(1)},
		}})
	}
	return ids
}

var silence = ExpireSessions{[]txn.SessionID{sessionID(1)}}

// TestNothingIsTakenBehindTheEndOfASession: in the entry that ends a session, and after it,
// every command comes too late for its transactions, also for one that this entry does not
// move; and the cause stays what it was when their deadline passes as well.
func TestNothingIsTakenBehindTheEndOfASession(t *testing.T) {
	m := bootstrapped(t, "bank")
	all := beginInSessions(m, 2*ExpireBatch+1, 7)
	last := all[2*ExpireBatch]
	vote := []txn.BranchVote{{Branch: 1, Vote: txn.VotePrepared}}
	fx := m.Apply(Entry{Tick: 5, Commands: []Command{
		Commit{ID: all[0], Votes: vote},
		silence,
		Commit{ID: all[1], Votes: vote},
		Extend{ID: all[2], Timeout: time.Second, Expiry: 99},
		Begin{ID: testID(99_999), Timeout: time.Second, Expiry: 99, Session: sessionID(1)},
		OpenSession{ID: sessionID(1), Name: "app", TTL: time.Second},
		silence,
		CloseSession{sessionID(1)},
	}})
	for i, want := range []Code{OK, OK, Decided, Decided, SessionEnded, SessionEnded, OK, SessionEnded} {
		if r := fx.Results[i]; r.Code != want || want != OK && r.Cause != txn.CauseSessionExpired {
			t.Errorf("command %d: code %s, cause %v; want %s", i+1, codeNames[r.Code], r.Cause, codeNames[want])
		}
	}
	o, _ := m.Lookup(last)
	if !m.Due() || o.State != txn.RollingBack || o.Cause != txn.CauseSessionExpired {
		t.Errorf("not drained yet: %v, %v, due %v", o.State, o.Cause, m.Due())
	}
	// Now the deadline of all has passed, too: expireBatch moves what the session has left.
	for range 2 {
		m.Apply(Entry{Tick: 7})
	}
	o, _ = m.Lookup(last)
	if m.Due() || o.State != txn.RollingBack || o.Cause != txn.CauseSessionExpired || m.Counts().RolledBack[txn.CauseTimeout] != 0 {
		t.Errorf("drained: %v, %v, due %v, %d timed out", o.State, o.Cause, m.Due(), m.Counts().RolledBack[txn.CauseTimeout])
	}
	if c := m.Counts(); c.Committed != 1 || c.RolledBack != (ByCause{txn.CauseSessionExpired: 2 * ExpireBatch}) || c.Sessions != 0 || c.SessionsExpired != 1 {
		t.Errorf("counts %+v", c)
	}
	if err := m.CheckInvariants(); err != nil {
		t.Error(err)
	}
}

// TestADeadlineBeforeTheEndOfTheSession: a transaction whose deadline had passed when the
// session ended has timed out.
func TestADeadlineBeforeTheEndOfTheSession(t *testing.T) {
	m := bootstrapped(t, "bank")
	id := beginInSessions(m, 1, 7)[0]
	m.expireBuf = nil // never move the group: the derived fact has to decide
	m.Apply(Entry{Tick: 7, Commands: []Command{silence}})
	if o, _ := m.Lookup(id); o.Cause != txn.CauseTimeout {
		t.Errorf("its time was over at tick 7, as was its session: cause %v", o.Cause)
	}
}

// TestRestoreKeepsWhatASessionLeft: a snapshot that is taken before all transactions of an
// ended session are moved holds the rest, in its order.
func TestRestoreKeepsWhatASessionLeft(t *testing.T) {
	m := bootstrapped(t, "bank")
	all := beginInSessions(m, ExpireBatch+100, 90)
	// The first one is extended, and so the last of the session's list.
	m.Apply(Entry{Tick: 2, Commands: []Command{Extend{ID: all[0], Timeout: time.Second, Expiry: 99}}})
	m.Apply(Entry{Tick: 2, Commands: []Command{silence}})
	rest := append(all[ExpireBatch+1:], all[0])
	s := m.Snapshot()
	defer s.Release()
	r, err := Restore(s.Header(), withoutError(s.Sessions()), withoutError(s.Transactions()))
	if err != nil {
		t.Fatal(err)
	}
	if !m.Due() || !r.Due() {
		t.Fatal("one entry has drained everything: nothing is tried here")
	}
	work := r.Apply(Entry{Tick: 2}).Pending
	if len(work) != len(rest) || r.Due() {
		t.Fatalf("the entry after the restore moved %d, more due: %v; want %d", len(work), r.Due(), len(rest))
	}
	for i, id := range work {
		if id != rest[i] {
			t.Fatalf("place %d has %v; want %v", i, id, rest[i])
		}
	}
	m.Apply(Entry{Tick: 2})
	if m.Hash() != r.Hash() {
		t.Error("the restored state and the original differ")
	}
}

// TestDelegatedOutlivesItsSession: as it outlives its deadline.
func TestDelegatedOutlivesItsSession(t *testing.T) {
	m := bootstrapped(t, "bank")
	id := beginInSessions(m, 1, 90)[0]
	m.Apply(Entry{Tick: 2, Commands: []Command{Delegate{id, 1}, silence}})
	if o, _ := m.Lookup(id); o.State != txn.Preparing {
		t.Fatalf("delegated: %v, %v", o.State, o.Cause)
	}
	m.Apply(Entry{Tick: 3, Commands: []Command{ReportCompletion{id, []txn.CompletionReport{{Branch: 1, State: txn.BranchCommitted}}}}})
	x, _ := m.Get(id)
	if x.State != txn.Committed || x.Session != sessionID(1) {
		t.Errorf("its branch has committed: %v, of session %v", x.State, x.Session)
	}
	if err := m.CheckInvariants(); err != nil {
		t.Error(err)
	}
}

// TestMalformedSessions are refused, and change nothing.
func TestMalformedSessions(t *testing.T) {
	m := bootstrapped(t)
	hash := m.Hash()
	for name, c := range map[string]Command{
		"no id":       OpenSession{TTL: time.Second},
		"no time":     OpenSession{ID: sessionID(1)},
		"less time":   OpenSession{ID: sessionID(1), TTL: -1},
		"more time":   OpenSession{ID: sessionID(1), TTL: 4097 * time.Second},
		"long name":   OpenSession{ID: sessionID(1), TTL: 1, Name: strings.Repeat("n", txn.MaxName+1)},
		"many silent": ExpireSessions{make([]txn.SessionID, MaxExpire+1)},
	} {
		if r := m.Apply(Entry{Commands: []Command{c}}).Results[0]; r.Code != Malformed || m.Hash() != hash {
			t.Errorf("%s: code %s", name, codeNames[r.Code])
		}
	}
}

// TestSessionsAreLimited: the number of those that are open, and of those that are retained.
func TestSessionsAreLimited(t *testing.T) {
	m := bootstrapped(t)
	var all []Command
	var silent ExpireSessions
	for n := range uint64(txn.MaxSessions) {
		all = append(all, OpenSession{ID: sessionID(n + 1), TTL: time.Second})
		if n <= MaxEndedSessions {
			silent.IDs = append(silent.IDs, sessionID(n+1))
		}
	}
	m.Apply(Entry{Commands: all})
	another := OpenSession{ID: sessionID(txn.MaxSessions + 1), TTL: time.Second}
	if r := m.Apply(Entry{Commands: []Command{another}}).Results[0]; r.Code != TooMany || m.Counts().Sessions != txn.MaxSessions {
		t.Fatalf("one more than %d: code %s", m.Counts().Sessions, codeNames[r.Code])
	}
	for len(silent.IDs) > 0 {
		n := min(len(silent.IDs), MaxExpire)
		m.Apply(Entry{Commands: []Command{ExpireSessions{silent.IDs[:n]}}})
		silent.IDs = silent.IDs[n:]
	}
	m.Apply(Entry{})
	if first, second := m.SessionStatus(sessionID(1)).Code, m.SessionStatus(sessionID(2)).Code; first != NoSession || second != SessionEnded {
		t.Errorf("of %d ended sessions the oldest answers %s and the next %s", MaxEndedSessions+1, codeNames[first], codeNames[second])
	}
	if r := m.Apply(Entry{Commands: []Command{another}}).Results[0]; r.Code != OK {
		t.Errorf("when others have ended: code %s", codeNames[r.Code])
	}
	if err := m.CheckInvariants(); err != nil {
		t.Error(err)
	}
}

// TestRestoreRefusesSessionsThatCannotBe.
func TestRestoreRefusesSessionsThatCannotBe(t *testing.T) {
	good := Session{ID: sessionID(1), TTL: time.Second, State: txn.SessionExpired, Seq: 2, EndedTick: 3}
	open := Session{ID: sessionID(1), TTL: time.Second, State: txn.SessionOpen}
	one := Transaction{ID: testID(1), State: txn.Active, Expiry: 9, Seq: 1, Session: sessionID(1)}
	restore := func(txs iter.Seq2[*Transaction, error], all ...*Session) error {
		h := Header{Bootstrap: historyBoots[0], Tick: 5, Seq: 5, Sessions: len(all)}
		m, err := Restore(h, func(yield func(*Session, error) bool) {
			for _, s := range all {
				if !yield(s, nil) {
					return
				}
			}
		}, txs)
		if err == nil {
			err = m.CheckInvariants()
		}
		return err
	}
	for _, ok := range []*Session{&good, &open} {
		if err := restore(single(&one), ok); err != nil {
			t.Fatalf("%+v: %v", *ok, err)
		}
	}
	change := func(from Session, do func(*Session)) *Session { do(&from); return &from }
	for name, s := range map[string]*Session{
		"no id":           change(good, func(s *Session) { s.ID = txn.SessionID{} }),
		"no time":         change(good, func(s *Session) { s.TTL = 0 }),
		"no state":        change(good, func(s *Session) { s.State = 0 }),
		"unknown state":   change(good, func(s *Session) { s.State = 9 }),
		"ended, no place": change(good, func(s *Session) { s.Seq = 0 }),
		"place to come":   change(good, func(s *Session) { s.Seq = 6 }),
		"end to come":     change(good, func(s *Session) { s.EndedTick = 6 }),
		"open, ended":     change(open, func(s *Session) { s.EndedTick = 1 }),
		"open, place":     change(open, func(s *Session) { s.Seq = 1 }),
		"long name":       change(open, func(s *Session) { s.Name = strings.Repeat("n", txn.MaxName+1) }),
	} {
		if err := restore(nothing[*Transaction], s); err == nil {
			t.Errorf("%s: restored", name)
		}
	}
	if err := restore(nothing[*Transaction], &open, &open); err == nil {
		t.Error("the same session twice was restored")
	}
	if err := restore(single(&one)); err == nil {
		t.Error("an undecided transaction was restored without its session")
	}
}

// TestEndedSessionIsRememberedForTheRetention: until as many ticks have passed as outcomes are
// retained, and no longer.
func TestEndedSessionIsRememberedForTheRetention(t *testing.T) {
	m := bootstrapped(t)
	const end = 2
	m.Apply(Entry{Tick: 1, Commands: []Command{OpenSession{ID: sessionID(1), TTL: time.Second}}})
	m.Apply(Entry{Tick: end, Commands: []Command{silence}})
	retention := survival.Tick(m.boot.Retention / m.boot.Interval)
	if m.Apply(Entry{Tick: end + retention - 1}); m.SessionStatus(sessionID(1)).Code != SessionEnded {
		t.Errorf("one tick before the end of the retention: %s", codeNames[m.SessionStatus(sessionID(1)).Code])
	}
	if m.Apply(Entry{Tick: end + retention}); m.SessionStatus(sessionID(1)).Code != NoSession {
		t.Errorf("at the end of the retention: %s", codeNames[m.SessionStatus(sessionID(1)).Code])
	}
}

// TestSessionThatIsDrainedIsNotForgotten: it is retained until the last of its transactions is
// rolled back, also when the retention has passed since its end.
func TestSessionThatIsDrainedIsNotForgotten(t *testing.T) {
	m := bootstrapped(t, "bank")
	retention := survival.Tick(m.boot.Retention / m.boot.Interval)
	all := beginInSessions(m, 2*ExpireBatch+100, retention+1000)
	m.Apply(Entry{Tick: 2, Commands: []Command{silence}})
	m.Apply(Entry{Tick: 2 + retention})
	if code := m.SessionStatus(sessionID(1)).Code; !m.Due() || code != SessionEnded {
		t.Fatalf("transactions are left: %v, and the session answers %s", m.Due(), codeNames[code])
	}
	if err := m.CheckInvariants(); err != nil {
		t.Fatal(err)
	}
	if work := m.Apply(Entry{Tick: 2 + retention}).Pending; len(work) != 100 || work[99] != all[len(all)-1] {
		t.Errorf("the next entry moved %d; want the last 100", len(work))
	}
	m.Apply(Entry{Tick: 2 + retention})
	if code := m.SessionStatus(sessionID(1)).Code; m.Due() || code != NoSession {
		t.Errorf("transactions are left: %v, and the session answers %s", m.Due(), codeNames[code])
	}
}
