package machine

import (
	"testing"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// do applies commands one by one and checks that they are carried out.
func do(t *testing.T, m *Machine, cs ...Command) Effects {
	t.Helper()
	var fx Effects
	for _, c := range cs {
		fx = m.Apply(Entry{Commands: []Command{c}})
		if fx.Results[0].Code != OK {
			t.Fatalf("%T: %s", c, codeNames[fx.Results[0].Code])
		}
		if err := m.CheckInvariants(); err != nil {
			t.Fatalf("%T: %v", c, err)
		}
	}
	return fx
}

func outcomeOf(t *testing.T, m *Machine) txn.Outcome {
	t.Helper()
	o, ok := m.Lookup(one)
	if !ok {
		t.Fatal("the transaction is gone")
	}
	return o
}

func TestProofReplacesAnUnknownHeuristicOutcome(t *testing.T) {
	m := (scenario{make: []Command{begin, commit}}).build(t)
	do(t, m, ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicHazard, Detail: "no such gid"}, ReportCompletion{one, []txn.CompletionReport{{Branch: 2, State: txn.BranchCommitted}}})
	if o := outcomeOf(t, m); o.Heuristic != txn.HeuristicHazard || o.State != txn.Committed {
		t.Fatalf("%+v", o)
	}
	do(t, m, ReportCompletion{one, []txn.CompletionReport{{Branch: 1, State: txn.BranchCommitted}}})
	if o := outcomeOf(t, m); o.Heuristic != 0 {
		t.Errorf("after the application's own acknowledgement: %+v", o)
	}
}

func TestForgottenStaysForgotten(t *testing.T) {
	m := (scenario{make: []Command{begin, commit}}).build(t)
	do(t, m, ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicHazard, Detail: ""}, ReportHeuristic{ID: one, Branch: 2, Heuristic: txn.HeuristicRollback, Detail: ""}, Forget{ID: one, Reason: "paid by hand"})
	do(t, m, ReportCompletion{one, []txn.CompletionReport{{Branch: 1, State: txn.BranchCommitted}}})
	if o := outcomeOf(t, m); o.Heuristic != 0 || o.State != txn.Committed {
		t.Errorf("%+v", o)
	}
}

func TestHeuristicOutcomeOutlivesRetention(t *testing.T) {
	m := (scenario{make: []Command{begin, commit}}).build(t)
	do(t, m, ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicRollback, Detail: "by hand"}, ReportCompletion{one, []txn.CompletionReport{{Branch: 2, State: txn.BranchCommitted}}})
	m.Apply(Entry{Tick: 1 << 40})
	if o := outcomeOf(t, m); o.Heuristic != txn.HeuristicMixed {
		t.Errorf("%+v", o)
	}
	do(t, m, Forget{ID: one, Reason: "seen"})
	m.Apply(Entry{Tick: 1 << 41})
	if _, ok := m.Lookup(one); ok {
		t.Error("forgotten, and its retention is over: it should be gone")
	}
	if m.strings.Len() != 0 || m.branches.Len() != 0 || m.txs.Len() != 0 {
		t.Errorf("left behind: %d cells, %d branches, %d records", m.strings.Len(), m.branches.Len(), m.txs.Len())
	}
}

// A million due at once are decided by the entry that brings the tick, and moved
// by it and the next ones in bounded batches, in the order of joining.
func TestDrainIsBoundedAndInOrder(t *testing.T) {
	const n = ExpireBatch + 100
	m := bootstrapped(t, "bank")
	for i := range uint64(n) {
		m.Apply(Entry{Commands: []Command{Begin{ID: testID(i + 1), Timeout: time.Second, Expiry: 7, Branches: []Branch{{Participant: "bank"}}}}})
	}
	fx := m.Apply(Entry{Tick: 7})
	if len(fx.Pending) != ExpireBatch || !m.Due() {
		t.Fatalf("the first entry moved %d, more due: %v", len(fx.Pending), m.Due())
	}
	if o, _ := m.Lookup(testID(n)); o.State != txn.RollingBack || o.Cause != txn.CauseTimeout {
		t.Errorf("the last one, not moved yet, is %+v", o)
	}
	work := append(fx.Pending, m.Apply(Entry{Tick: 7}).Pending...)
	if len(work) != n || m.Due() {
		t.Fatalf("moved %d, more due: %v", len(work), m.Due())
	}
	for i, id := range work {
		if id != testID(uint64(i)+1) {
			t.Fatalf("place %d has %v", i, id)
		}
	}
}

func TestExpiryOfOneGroupOnly(t *testing.T) {
	m := bootstrapped(t)
	for i := range uint64(1001) {
		expiry := survival.Tick(1000)
		if i == 500 {
			expiry = 3
		}
		m.Apply(Entry{Commands: []Command{Begin{ID: testID(i + 1), Timeout: time.Second, Expiry: expiry}}})
	}
	m.Apply(Entry{Tick: 2})
	if c := m.Counts(); c.RolledBack[txn.CauseTimeout] != 0 {
		t.Errorf("at tick 2: %+v", c)
	}
	m.Apply(Entry{Tick: 3})
	if c := m.Counts(); c.RolledBack[txn.CauseTimeout] != 1 || c.Undecided != 1000 {
		t.Errorf("at tick 3: %+v", c)
	}
}

func TestLimits(t *testing.T) {
	m := bootstrapped(t, "bank")
	many := Begin{ID: one, Timeout: time.Second, Expiry: 9, Branches: make([]Branch, txn.MaxBranches+1)}
	long := Begin{ID: one, Timeout: time.Second, Expiry: 9, Name: string(make([]byte, txn.MaxName+1))}
	twice := Begin{ID: one, Timeout: time.Second, Expiry: 9, Branches: []Branch{{Participant: "bank"}, {Participant: "bank"}}}
	unsorted := Begin{ID: one, Timeout: time.Second, Expiry: 9, Labels: []Label{{"b", ""}, {"a", ""}}}
	for want, cs := range map[Code][]Command{
		TooMany:       {many},
		Malformed:     {long, twice, unsorted, Begin{Timeout: 1}, Begin{ID: one}, nil, AddParticipant{admin.Participant{Name: "Bad Name", Kind: "x"}}},
		NoParticipant: {Begin{ID: one, Timeout: 1, Branches: []Branch{{Participant: "nobody"}}}, RemoveParticipant{"nobody"}},
		Conflict:      {Bootstrap{Cluster: "other", Interval: 1}, AddParticipant{admin.Participant{Name: "bank", Kind: "web"}}},
	} {
		for _, c := range cs {
			hash := m.Hash()
			if got := m.Apply(Entry{Commands: []Command{c}}).Results[0].Code; got != want || m.Hash() != hash {
				t.Errorf("%+v: %s, want %s; state changed: %v", c, codeNames[got], codeNames[want], m.Hash() != hash)
			}
		}
	}
	if got := New().Apply(Entry{Commands: []Command{begin}}).Results[0].Code; got != NotBootstrapped {
		t.Errorf("before the bootstrap: %s", codeNames[got])
	}
}

func TestParticipantInUseStays(t *testing.T) {
	m := (scenario{make: []Command{begin}}).build(t)
	if got := m.Apply(Entry{Commands: []Command{RemoveParticipant{"bank"}}}).Results[0].Code; got != InUse {
		t.Errorf("removing a participant with open branches: %s", codeNames[got])
	}
	do(t, m, undo, acks(txn.BranchRolledBack), RemoveParticipant{"bank"})
	if _, ok := m.Participant("bank"); ok {
		t.Error("bank is still registered")
	}
	if x, _ := m.Get(one); x.Branches[0].Participant != "bank" {
		t.Errorf("the old branch is at %q", x.Branches[0].Participant)
	}
	do(t, m, AddParticipant{admin.Participant{Name: "bank", Kind: "postgres"}})
}

func TestVotesOfTheCoordinatorKeepThePromiseOfTheApplication(t *testing.T) {
	m := (scenario{make: []Command{begin}}).build(t)
	do(t, m, Commit{ID: one, Votes: []txn.BranchVote{yes1}, ClientCompletes: true})
	fx := do(t, m, Commit{ID: one, Votes: []txn.BranchVote{yes2}})
	if len(fx.DeferToClient) != 1 || len(fx.Pending) != 0 {
		t.Errorf("%+v: the application has promised to finish its branches", fx)
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	m := bootstrapped(t, "bank", "stock")
	b := begin
	b.Labels = []Label{{"order", "a label that is longer than one cell of text"}}
	b.Branches = []Branch{{Participant: "bank", Payload: make([]byte, 1000), SessionRef: "pid=1"}, {Participant: "stock"}}
	do(t, m, b, Enlist{ID: one, Branch: Branch{Participant: "bank", Payload: b.Branches[0].Payload, SessionRef: "pid=2, and so on for more than one cell"}}, undo)
	if x, _ := m.Get(one); len(x.Branches[0].Payload) != 1000 || x.Branches[0].SessionRef[:5] != "pid=2" || x.Labels[0] != b.Labels[0] {
		t.Errorf("%+v", x)
	}
	do(t, m, acks(txn.BranchRolledBack))
	m.Apply(Entry{Tick: 1 << 40})
	if m.strings.Len() != 0 || m.branches.Len() != 0 || m.txs.Len() != 0 {
		t.Errorf("left behind: %d cells, %d branches, %d records", m.strings.Len(), m.branches.Len(), m.txs.Len())
	}
}

// TestFinishedOutcomesAreSmall: payloads and session references are dropped when the last
// branch is finished, however long the outcome is retained.
func TestFinishedOutcomesAreSmall(t *testing.T) {
	m := bootstrapped(t, "bank")
	b := Begin{ID: one, Name: "n", Timeout: time.Second, Expiry: 9, Branches: []Branch{{Participant: "bank", Payload: make([]byte, txn.MaxPayload), SessionRef: "pid=1"}}}
	do(t, m, b, undo, ReportCompletion{one, []txn.CompletionReport{{Branch: 1, State: txn.BranchRolledBack}}})
	if o, _ := m.retained.oldest(); len(o) == 0 || len(o) > 80 || m.strings.Len() != 0 {
		t.Errorf("a finished transaction takes %d bytes and %d cells", len(o), m.strings.Len())
	}
	do(t, m, b) // and a repeated begin is still recognised
}

func TestMoreAcksThanBranches(t *testing.T) {
	m := (scenario{make: []Command{begin, commit}}).build(t)
	hash := m.Hash()
	flood := ReportCompletion{ID: one, Reports: make([]txn.CompletionReport, 100_000)}
	if got := m.Apply(Entry{Commands: []Command{flood}}).Results[0].Code; got != BadCompletion || m.Hash() != hash {
		t.Errorf("100,000 acknowledgements of 2 branches: %s", codeNames[got])
	}
}
