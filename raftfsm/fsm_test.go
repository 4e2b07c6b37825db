package raftfsm

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setup is the first entry of the tests' clusters.
func setup() machine.Entry {
	return machine.Entry{Tick: 1, Commands: []machine.Command{
		machine.Bootstrap{Cluster: "k7q", Interval: time.Second, Retention: 4 * time.Second, Retain: 2},
		machine.AddParticipant{Participant: admin.Participant{Name: "orders", Kind: "postgres"}},
		machine.AddParticipant{Participant: admin.Participant{Name: "stock", Kind: "mariadb", Settings: map[string]string{"dsn": "env:STOCK"}}},
		machine.AddParticipant{Participant: admin.Participant{Name: "web", Kind: "http", CoordinatorPrepares: true}},
	}}
}

func logOf(t testing.TB, index uint64, e machine.Entry) *raft.Log {
	t.Helper()
	return &raft.Log{Index: index, Term: 2, Type: raft.LogCommand, Data: mustEncode(t, e)}
}

func mustApply(t testing.TB, f *FSM, l *raft.Log) *Applied {
	t.Helper()
	switch a := f.Apply(l).(type) {
	case *Applied:
		return a
	default:
		t.Fatalf("log entry %d: %v", l.Index, a)
		return nil
	}
}

// fingerprint is for tests without concurrent readers.
func fingerprint(f *FSM) (sum uint64) {
	f.View(func(m *machine.Machine) { sum = m.Hash() })
	return sum
}

// persisted takes a snapshot all the way through raft's own store in memory.
func persisted(t testing.TB, f *FSM) []byte {
	t.Helper()
	s, err := f.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	store := raft.NewInmemSnapshotStore()
	sink, err := store.Create(1, 1, 1, raft.Configuration{}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Persist(sink); err != nil {
		t.Fatal(err)
	}
	_, r, err := store.Open(sink.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestApply(t *testing.T) {
	type call struct {
		index   uint64
		effects *machine.Effects
		tick    survival.Tick
	}
	var calls []call
	var f *FSM
	f = New(Config{OnApply: func(at Position, e *machine.Effects, tick survival.Tick) {
		f.View(func(m *machine.Machine) {
			if m.Tick() != tick {
				t.Errorf("OnApply was told tick %d, sees %d", tick, m.Tick())
			}
		})
		calls = append(calls, call{at.Index, e, tick})
	}})
	first := mustApply(t, f, logOf(t, 3, setup()))
	begin := machine.Begin{ID: id(1), Timeout: time.Second, Expiry: 9, Branches: []machine.Branch{{Participant: "orders"}}}
	second := mustApply(t, f, logOf(t, 7, machine.Entry{Tick: 8, Commands: []machine.Command{begin, machine.Forget{ID: id(2)}}}))
	third := mustApply(t, f, logOf(t, 8, machine.Entry{Tick: 9}))
	behind := mustApply(t, f, logOf(t, 9, machine.Entry{Tick: 4}))

	if got, want := second.Effects.Results, []machine.Code{machine.OK, machine.NotFound}; second.Index != 7 || second.Term != 2 ||
		len(got) != 2 || got[0].Code != want[0] || got[1].Code != want[1] {
		t.Errorf("second answer: %+v", second)
	}
	f.View(func(m *machine.Machine) {
		if x, _ := m.Get(id(1)); x.DecidedIndex != 8 || x.DecidedTick != 9 {
			t.Errorf("the decision is said to be that of entry %d, tick %d; want 8, 9", x.DecidedIndex, x.DecidedTick)
		}
	})
	if w := third.Effects.Pending; len(w) != 1 || w[0] != id(1) {
		t.Errorf("work of the tick that ends the transaction: %v", w)
	}
	want := []call{{3, &first.Effects, 1}, {7, &second.Effects, 8}, {8, &third.Effects, 9}, {9, &behind.Effects, 9}}
	for i, c := range calls {
		if i >= len(want) || c != want[i] {
			t.Errorf("call %d: %+v", i, c)
		}
	}
	if len(calls) != len(want) {
		t.Errorf("%d calls; want %d", len(calls), len(want))
	}
}

func TestApplyStopsAtBadEntry(t *testing.T) {
	good := logOf(t, 12, machine.Entry{Tick: 50})
	newer := bytes.Clone(good.Data)
	newer[0]++
	for name, tt := range map[string]struct {
		data []byte
		want error
	}{
		"corrupt":       {good.Data[:len(good.Data)-1], ErrCorrupt},
		"empty":         {nil, ErrCorrupt},
		"newer version": {newer, ErrUnknownVersion},
		"newer command": {entryOf(1, []byte{newestKind + 1, 0}), ErrUnknownKind},
	} {
		t.Run(name, func(t *testing.T) {
			var failures []error
			applied := 0
			f := New(Config{
				OnFailure: func(err error) { failures = append(failures, err) },
				OnApply:   func(Position, *machine.Effects, survival.Tick) { applied++ },
			})
			mustApply(t, f, logOf(t, 10, setup()))
			before, image := fingerprint(f), persisted(t, f)
			err, _ := f.Apply(&raft.Log{Index: 11, Term: 2, Data: tt.data}).(error)
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), "log entry 11 of term 2") {
				t.Errorf("error: %v; want %v", err, tt.want)
			}
			if again := f.Apply(good); again != err {
				t.Errorf("the entry behind the bad one: %v", again)
			}
			if len(failures) != 1 || failures[0] != err || applied != 1 {
				t.Errorf("OnFailure was told %v, OnApply called %d times", failures, applied)
			}
			if s, err := f.Snapshot(); s != nil || !errors.Is(err, tt.want) {
				t.Errorf("a snapshot of a state with a gap: %v, %v", s, err)
			}
			if err := f.Restore(io.NopCloser(bytes.NewReader(image))); !errors.Is(err, tt.want) {
				t.Errorf("restored over a failure: %v", err)
			}
			if fingerprint(f) != before {
				t.Error("the state has changed")
			}
		})
	}
	if err, _ := New(Config{}).Apply(&raft.Log{}).(error); !errors.Is(err, ErrCorrupt) {
		t.Errorf("without OnFailure: %v", err)
	}
}

func TestRestoreIsAllOrNothing(t *testing.T) {
	source := New(Config{})
	mustApply(t, source, logOf(t, 1, setup()))
	begin := machine.Begin{ID: id(1), Timeout: time.Second, Expiry: 90, Branches: []machine.Branch{{Participant: "stock"}}}
	mustApply(t, source, logOf(t, 2, machine.Entry{Tick: 33, Commands: []machine.Command{begin}}))
	data := persisted(t, source)

	var ticks []survival.Tick
	f := New(Config{OnRestore: func(tick survival.Tick) { ticks = append(ticks, tick) }})
	mustApply(t, f, logOf(t, 1, machine.Entry{Tick: 5, Commands: []machine.Command{machine.Bootstrap{Cluster: "other", Interval: 1}}}))
	before := fingerprint(f)
	for cut := range data {
		c := &closer{Reader: bytes.NewReader(data[:cut])}
		if err := f.Restore(c); !errors.Is(err, ErrCorrupt) || !c.closed {
			t.Fatalf("cut to %d of %d bytes: %v (closed: %v)", cut, len(data), err, c.closed)
		}
	}
	if fingerprint(f) != before || ticks != nil {
		t.Fatalf("the state was changed by snapshots that were refused (OnRestore: %v)", ticks)
	}
	c := &closer{Reader: bytes.NewReader(data)}
	if err := f.Restore(c); err != nil || !c.closed {
		t.Fatalf("%v (closed: %v)", err, c.closed)
	}
	if fingerprint(f) != fingerprint(source) || len(ticks) != 1 || ticks[0] != 33 {
		t.Errorf("restored otherwise (OnRestore: %v)", ticks)
	}
}

// TestRestoreIsAStepOnceTheSnapshotIsRead: reading may take as long as it takes; what comes then may not, which is what
// steps are watched for.
func TestRestoreIsAStepOnceTheSnapshotIsRead(t *testing.T) {
	source := New(Config{})
	mustApply(t, source, logOf(t, 1, setup()))
	data := persisted(t, source)
	var f *FSM
	restored := false
	f = New(Config{OnRestore: func(survival.Tick) {
		if restored = true; f.Restoring() || f.Steps()%2 == 0 {
			t.Errorf("the state was replaced, and a snapshot is being read: %v; steps: %d, want an odd number", f.Restoring(), f.Steps())
		}
	}})
	reading := duringRead(func() {
		if !f.Restoring() || f.Steps()%2 == 1 {
			t.Errorf("the snapshot is read, and that is said: %v; steps: %d, want an even number", f.Restoring(), f.Steps())
		}
	})
	if err := f.Restore(io.NopCloser(io.TeeReader(bytes.NewReader(data), reading))); err != nil || !restored {
		t.Fatalf("%v (OnRestore: %v)", err, restored)
	}
	if f.Restoring() || f.Steps() != 2 {
		t.Errorf("when it is over: a snapshot is being read: %v; steps: %d, want 2", f.Restoring(), f.Steps())
	}
}

// duringRead is called with each piece that was read.
type duringRead func()

func (r duringRead) Write(p []byte) (int, error) {
	r()
	return len(p), nil
}

type closer struct {
	io.Reader
	closed bool
}

func (c *closer) Close() error { c.closed = true; return nil }

// TestPersistCancels fails the sink at every write.
func TestPersistCancels(t *testing.T) {
	f := New(Config{})
	mustApply(t, f, logOf(t, 1, setup()))
	full := errors.New("disk full")
	for n := 0; ; n++ {
		s, err := f.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		sink := &failingSink{left: n, err: full}
		err = s.Persist(sink)
		s.Release()
		if err == nil {
			if n != 5 || sink.cancelled || !sink.closed { // magic, header, audit, end, close
				t.Errorf("after %d operations: %+v", n, sink)
			}
			return
		}
		if !errors.Is(err, full) || sink.cancelled == sink.closed {
			t.Fatalf("operation %d failed: %v, %+v", n, err, sink)
		}
	}
}

// failingSink is a fake sink that fails after some operations.
type failingSink struct {
	left              int
	err               error
	cancelled, closed bool
}

func (s *failingSink) step() error {
	if s.left == 0 {
		return s.err
	}
	s.left--
	return nil
}

func (s *failingSink) Write(p []byte) (int, error) {
	if err := s.step(); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *failingSink) Close() error {
	s.closed = true
	return s.step()
}

func (s *failingSink) ID() string    { return "failing" }
func (s *failingSink) Cancel() error { s.cancelled = true; return nil }

// TestReplay: the same bytes give the same state and the same effects; and so does, for every cut, a snapshot and the rest.
func TestReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var logs []*raft.Log
		for i, e := range genHistory().Draw(t, "history") {
			data, err := EncodeEntry(e)
			if err != nil {
				t.Fatal(err)
			}
			logs = append(logs, &raft.Log{Index: uint64(i + 1), Term: 1, Data: data})
		}
		run := func(f *FSM, logs []*raft.Log, want []*Applied) {
			for i, l := range logs {
				a, ok := f.Apply(l).(*Applied)
				if !ok {
					t.Fatalf("entry %d was not applied", l.Index)
				}
				if d := cmp.Diff(want[i], a); d != "" {
					t.Fatalf("entry %d, replayed otherwise (-want +got):\n%s", l.Index, d)
				}
			}
		}
		f, second := New(Config{}), New(Config{})
		if rapid.Bool().Draw(t, "held") {
			next := copiedAsNewIncarnation(t, snapshotOf(t, f))
			for _, f := range []*FSM{f, second} {
				if err := f.Restore(io.NopCloser(bytes.NewReader(next))); err != nil {
					t.Fatal(err)
				}
			}
		}
		var images [][]byte
		var answers []*Applied
		for _, l := range logs {
			images = append(images, snapshotOf(t, f))
			a, ok := f.Apply(l).(*Applied)
			if !ok {
				t.Fatalf("entry %d was not applied", l.Index)
			}
			answers = append(answers, a)
		}
		run(second, logs, answers)
		if fingerprint(second) != fingerprint(f) {
			t.Fatal("the same entries gave another state")
		}
		for cut, image := range images {
			g := New(Config{})
			if err := g.Restore(io.NopCloser(bytes.NewReader(image))); err != nil {
				t.Fatalf("cut before entry %d: %v", cut+1, err)
			}
			run(g, logs[cut:], answers[cut:])
			if fingerprint(g) != fingerprint(f) {
				t.Fatalf("cut before entry %d: another state", cut+1)
			}
			var err error
			if g.View(func(m *machine.Machine) { err = m.CheckInvariants() }); err != nil {
				t.Fatalf("cut before entry %d: %v", cut+1, err)
			}
		}
	})
}

func snapshotOf(t *rapid.T, f *FSM) []byte {
	s, err := f.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	var b bytes.Buffer
	inner := s.(*snapshot)
	if err := writeSnapshot(&b, inner.version(), inner.Header(), withoutErrors(inner.Sessions()), withoutErrors(inner.Transactions())); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// genHistory gives entries as a leader may write them: few ids, so that commands meet, and short times, so that deadlines
// and retention do too.
func genHistory() *rapid.Generator[[]machine.Entry] {
	return rapid.Custom(func(t *rapid.T) []machine.Entry {
		entries := []machine.Entry{setup()}
		tick := entries[0].Tick
		for range rapid.IntRange(1, 40).Draw(t, "entries") {
			tick += survival.Tick(rapid.SampledFrom([]int{0, 0, 1, 1, 2, 5}).Draw(t, "ticks"))
			stamp := tick - survival.Tick(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "behind"))
			entries = append(entries, machine.Entry{
				Tick: stamp, Wall: int64(1000 * tick),
				Commands: rapid.SliceOfN(genStep(stamp), 0, 5).Draw(t, "commands"),
			})
		}
		return entries
	})
}

func drawVotes(t *rapid.T, n int) (votes []txn.BranchVote) {
	for i := range n {
		vote := rapid.SampledFrom([]txn.Vote{1, 1, 1, 1, 1, 1, txn.VoteReadOnly, txn.VoteNo, txn.VoteEndedByApplication, 0}).Draw(t, "vote")
		votes = append(votes, txn.BranchVote{Branch: txn.BranchID(i + 1), Vote: vote})
	}
	return votes
}

func genStep(now survival.Tick) *rapid.Generator[machine.Command] {
	names := rapid.SampledFrom([]string{"orders", "stock", "web", "web", "nobody"})
	return rapid.Custom(func(t *rapid.T) machine.Command {
		id := id(rapid.ByteRange(1, 4).Draw(t, "id"))
		expiry := now + survival.Tick(rapid.IntRange(0, 20).Draw(t, "expiry"))
		n := rapid.SampledFrom([]int{0, 1, 2, 2, 2, 3}).Draw(t, "n")
		session := sessionID(rapid.ByteRange(1, 2).Draw(t, "session id"))
		switch rapid.IntRange(0, 22).Draw(t, "kind") {
		case 22:
			return machine.RecordAction{Action: machine.AuditAction(rapid.ByteRange(9, 12).Draw(t, "action")), Subject: "n_1", By: "ann", Reason: "maintenance"}
		case 21:
			return machine.EndedByApplication{ID: id, Branch: txn.BranchID(n), Reason: "COMMIT was typed"}
		case 18:
			return machine.OpenSession{ID: session, Name: "app", TTL: time.Second}
		case 19:
			return machine.CloseSession{ID: session}
		case 20:
			return machine.ExpireSessions{IDs: []txn.SessionID{session}}
		case 0, 1, 2:
			b := machine.Begin{ID: id, Name: "n", Timeout: time.Second, Survival: 1, Expiry: expiry, Labels: []machine.Label{{Key: "k", Value: "v"}}}
			if rapid.Bool().Draw(t, "in session") {
				b.Session = session
			}
			for _, p := range []string{"orders", "web", "stock"}[:n] {
				b.Branches = append(b.Branches, machine.Branch{Participant: p, Payload: []byte("payload of " + p + ", which takes some cells"), SessionRef: "s"})
			}
			return b
		case 3:
			return machine.Enlist{ID: id, Branch: machine.Branch{Participant: names.Draw(t, "name"), SessionRef: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "session")}}
		case 4, 5:
			return machine.Commit{ID: id, Votes: drawVotes(t, n), ClientCompletes: rapid.Bool().Draw(t, "own")}
		case 6:
			return machine.Rollback{ID: id, Cause: txn.Cause(rapid.ByteRange(0, 6).Draw(t, "cause")), Reason: "because"}
		case 7:
			return machine.Extend{ID: id, Timeout: time.Minute, Survival: 5, Expiry: expiry + 2}
		case 8:
			d := machine.ReportCompletion{ID: id}
			state := rapid.SampledFrom([]txn.BranchState{txn.BranchCommitted, txn.BranchRolledBack}).Draw(t, "state")
			for i := range n {
				d.Reports = append(d.Reports, txn.CompletionReport{Branch: txn.BranchID(i + 1), State: state})
			}
			return d
		case 9:
			if n == 0 {
				return machine.Forget{ID: id, By: rapid.SampledFrom([]string{"", "ann"}).Draw(t, "by"), Reason: "seen to"}
			}
			return machine.ReportHeuristic{
				ID: id, Branch: txn.BranchID(n), Heuristic: txn.Heuristic(rapid.ByteRange(1, 4).Draw(t, "hazard")), Detail: "detail",
				Legacy: rapid.Bool().Draw(t, "legacy"),
			}
		case 10, 11:
			return machine.Resolve{
				ID: id, Branch: txn.BranchID(n), By: "ann", Reason: rapid.SampledFrom([]string{"looked", "asked", ""}).Draw(t, "reason"),
				Outcome: rapid.SampledFrom([]txn.BranchState{txn.BranchCommitted, txn.BranchRolledBack}).Draw(t, "end"),
			}
		case 12:
			return machine.Vote{ID: id, Votes: drawVotes(t, n), ClientCompletes: rapid.Bool().Draw(t, "own"), Reason: "no room"}
		case 13:
			return machine.Delegate{ID: id, Branch: 1}
		case 14:
			node := rapid.SampledFrom([]string{"n_1", "n_2"}).Draw(t, "node")
			if n == 0 {
				return machine.RemoveMember{Node: node, By: "ann"}
			}
			return machine.SetMember{Member: machine.Member{Node: node, API: string(rune('0' + n))}}
		case 15:
			token := rapid.SampledFrom([]string{"aaaa", "bbbb"})
			if n == 0 {
				return machine.RemoveToken{ID: token.Draw(t, "token"), By: "ann", Reason: "lost"}
			}
			return machine.AddToken{ID: token.Draw(t, "token"), Name: token.Draw(t, "name"), Role: admin.RoleClient, Hash: [32]byte{byte(n)}, Reason: rapid.SampledFrom([]string{"", "asked"}).Draw(t, "reason")}
		case 16:
			return machine.ResumeRecovery{By: "ann", Reason: rapid.SampledFrom([]string{"compared", ""}).Draw(t, "reason")}
		default:
			p := admin.Participant{Name: names.Draw(t, "name"), Kind: "postgres", Settings: map[string]string{"n": string(rune('0' + n))}}
			if n == 0 {
				return machine.RemoveParticipant{Name: p.Name}
			}
			return machine.AddParticipant{Participant: p}
		}
	})
}

// TestEntryOfAnotherTerm: an entry that raft has held back until its node led again is
// applied by no node.
func TestEntryOfAnotherTerm(t *testing.T) {
	f := New(Config{OnApply: func(Position, *machine.Effects, survival.Tick) { t.Error("it was applied") }})
	var before, after uint64
	f.View(func(m *machine.Machine) { before = m.Hash() })
	data, err := EncodeEntry(machine.Entry{Tick: 9, Commands: []machine.Command{machine.Bootstrap{Cluster: "abc234", Interval: time.Second, Retention: time.Hour, Retain: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	l := WithTerm(data, 3)
	l.Index, l.Term = 1, 5
	if err, ok := f.Apply(&l).(error); !ok || !errors.Is(err, ErrTermMismatch) || !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("stamped in term 3, written in term 5: %v", err)
	}
	f.View(func(m *machine.Machine) { after = m.Hash() })
	if before != after {
		t.Error("it has changed the state")
	}
	f = New(Config{})
	l.Term = 3
	if _, ok := f.Apply(&l).(*Applied); !ok {
		t.Error("stamped and written in term 3, it was refused")
	}
}
