package machine

import (
	"fmt"
	"iter"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// copied is the machine after a snapshot and a restore.
func copied(t *testing.T, m *Machine) *Machine {
	t.Helper()
	s := m.Snapshot()
	defer s.Release()
	c, err := Restore(s.Header(), withoutError(s.Sessions()), withoutError(s.Transactions()))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CheckInvariants(); err != nil {
		t.Fatal(err)
	}
	if c.Hash() != m.Hash() {
		t.Fatal("restored otherwise")
	}
	return c
}

// TestDelegatedIsLeftToItsBranch: its deadline decides nothing, it is pending work for the
// leader, and nothing of that is lost in a snapshot.
func TestDelegatedIsLeftToItsBranch(t *testing.T) {
	m := (scenario{make: []Command{sole}}).build(t)
	fx := m.Apply(Entry{Commands: []Command{delegate}})
	if len(fx.DeferToClient) != 1 || len(fx.Pending) != 0 || len(fx.Changes) != 1 || fx.Changes[0].State != txn.Preparing {
		t.Errorf("effects: %+v", fx)
	}
	if fx := m.Apply(Entry{Commands: []Command{delegate}}); len(fx.DeferToClient) != 0 || len(fx.Changes) != 0 {
		t.Errorf("effects of the repeat: %+v", fx)
	}
	for name, m := range map[string]*Machine{"applied": m, "restored": copied(t, m)} {
		m.Apply(Entry{Tick: 1000})
		if r := m.Apply(Entry{Commands: []Command{commit}}).Results[0]; r.Code != Delegated || r.Branch != 1 {
			t.Errorf("%s: a commit is refused with %s of branch %v", name, codeNames[r.Code], r.Branch)
		}
		if got, want := m.Counts(), (Counts{Undecided: 1, Delegated: 1}); got != want {
			t.Errorf("%s: counts %+v; want %+v", name, got, want)
		}
		if tick, ok := m.Next(); ok || m.Due() {
			t.Errorf("%s: next expiry is %d, due: %v", name, tick, m.Due())
		}
		if ids, _ := m.Pending(0, 10); !slices.Equal(ids, []txn.ID{one}) {
			t.Errorf("%s: undone is %v", name, ids)
		}
		x, _ := m.Get(one)
		if !x.Delegated() || x.Decided != 0 || x.DecidedTick != 0 || x.Branches[0].State != txn.BranchEnlisted {
			t.Errorf("%s: %+v", name, x)
		}
		found, _ := m.Scan(0, 100, IDRange{}, func(b Summary) bool { return b.Delegated })
		if len(found) != 1 {
			t.Errorf("%s: %d briefs say that they are delegated", name, len(found))
		}
		do(t, m, ack1(txn.BranchCommitted))
		if got, want := m.Counts(), (Counts{Finished: 1, Committed: 1}); got != want {
			t.Errorf("%s: at the end, counts %+v; want %+v", name, got, want)
		}
		m.Apply(Entry{Tick: 1 << 40})
		if m.strings.Len() != 0 || m.branches.Len() != 0 || m.txs.Len() != 0 {
			t.Errorf("%s: left behind: %d cells, %d branches, %d records", name, m.strings.Len(), m.branches.Len(), m.txs.Len())
		}
	}
}

func TestDelegatedHeuristicOutcomeIsKept(t *testing.T) {
	m := (scenario{make: []Command{sole, delegate}}).build(t)
	fx := m.Apply(Entry{Tick: 50, Wall: 7, Index: 9, Commands: []Command{ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicHazard, Detail: "the log was cut"}}})
	if len(fx.Changes) != 1 || fx.Changes[0] != (Change{one, txn.RolledBack, txn.CauseVoteNo, txn.HeuristicHazard}) {
		t.Errorf("changes: %+v", fx.Changes)
	}
	m.Apply(Entry{Tick: 1 << 40})
	m = copied(t, m)
	x, ok := m.Get(one)
	if !ok || x.Branches[0].Detail != "the log was cut" || x.DecidedTick != 50 || x.Decided != 7 || x.DecidedIndex != 9 {
		t.Errorf("%+v", x)
	}
}

// TestDecisionFacts: the entry that decides is recorded, not one that repeats or finishes.
func TestDecisionFacts(t *testing.T) {
	tests := map[string]struct {
		make   []Command
		decide Command
		end    Command
	}{
		"commit":             {[]Command{begin}, commit, acks(txn.BranchCommitted)},
		"last vote":          {[]Command{begin, Commit{ID: one, Votes: []txn.BranchVote{yes1}}}, Vote{ID: one, Votes: []txn.BranchVote{yes2}}, acks(txn.BranchCommitted)},
		"a no":               {[]Command{begin}, Vote{ID: one, Votes: []txn.BranchVote{no2}, Reason: "no room"}, acks(txn.BranchRolledBack)},
		"rollback":           {[]Command{begin}, undo, acks(txn.BranchRolledBack)},
		"resolve":            {[]Command{begin}, said(0, txn.BranchRolledBack), acks(txn.BranchRolledBack)},
		"end of a delegated": {[]Command{sole, delegate}, ack1(txn.BranchRolledBack), ack1(txn.BranchRolledBack)},
		"timeout":            {[]Command{begin}, Extend{ID: one}, acks(txn.BranchRolledBack)},
	}
	for name, tt := range tests {
		m := (scenario{make: tt.make}).build(t)
		e := Entry{Tick: 8, Wall: 800, Index: 80, Commands: []Command{tt.decide}}
		if name == "timeout" {
			e.Tick = 10
		}
		m.Apply(e)
		m.Apply(Entry{Tick: e.Tick + 1, Wall: 900, Index: 90, Commands: []Command{tt.decide, tt.end, Forget{ID: one}}})
		x, _ := copied(t, m).Get(one)
		if x.Decided != 800 || x.DecidedTick != e.Tick || x.DecidedIndex != 80 || !x.State.Finished() {
			t.Errorf("%s: %+v", name, x)
		}
	}
}

// TestProofAfterTheEnd: an operator learns that a confirmed branch ended otherwise, wherever
// its outcome is in the retention; and it stays until it is forgotten, when the retention
// begins anew.
func TestProofAfterTheEnd(t *testing.T) {
	for wrong := range uint64(4) {
		t.Run(fmt.Sprint(wrong), func(t *testing.T) {
			m := bootstrapped(t, "bank", "stock")
			for n := range uint64(4) {
				b := beginTwo(n, 100)
				b.ID = testID(n + 1)
				yes := Commit{ID: b.ID, Votes: []txn.BranchVote{yes1, yes2}}
				do(t, m, b, yes, ReportCompletion{b.ID, []txn.CompletionReport{{Branch: 1, State: txn.BranchCommitted}, {Branch: 2, State: txn.BranchCommitted}}})
			}
			id := testID(wrong + 1)
			found := ReportHeuristic{ID: id, Branch: 2, Heuristic: txn.HeuristicRollback, Detail: "it is aborted there"}
			do(t, m, found, found)
			if got, want := m.Counts(), (Counts{Finished: 4, Heuristics: 1, Committed: 4}); got != want {
				t.Errorf("counts %+v; want %+v", got, want)
			}
			m = copied(t, m)
			m.Apply(Entry{Tick: 1 << 30})
			if err := m.CheckInvariants(); err != nil {
				t.Error(err)
			}
			x, ok := m.Get(id)
			if !ok || m.txs.Len() != 1 || x.State != txn.Committed || x.Heuristic != txn.HeuristicMixed || x.Branches[1].Detail != found.Detail {
				t.Errorf("left: %d, and %+v", m.txs.Len(), x)
			}
			do(t, m, Forget{ID: id, By: "ann", Reason: "paid by hand"})
			m.Apply(Entry{Tick: 1<<30 + 100})
			if _, ok := m.Lookup(id); !ok {
				t.Error("its retention did not begin when it was forgotten")
			}
			m.Apply(Entry{Tick: 1 << 31})
			if m.strings.Len() != 0 || m.branches.Len() != 0 || m.txs.Len() != 0 {
				t.Errorf("left behind: %d cells, %d branches, %d records", m.strings.Len(), m.branches.Len(), m.txs.Len())
			}
		})
	}
}

func TestReadOnlyHasNoWrongEnd(t *testing.T) {
	yes := Commit{ID: one, Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VoteReadOnly}, yes2}}
	m := (scenario{make: []Command{begin, yes, ReportCompletion{one, []txn.CompletionReport{{Branch: 2, State: txn.BranchCommitted}}}}}).build(t)
	found := ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicRollback}
	if got := m.Apply(Entry{Commands: []Command{found}}).Results[0]; got.Code != BadCompletion || got.Heuristic != 0 {
		t.Errorf("%s, %+v", codeNames[got.Code], got)
	}
}

// TestResolveOfWhatWasDecidedMeanwhile: an operator's request to roll an undecided transaction
// back says nothing about how its branches end when the commit came first.
func TestResolveOfWhatWasDecidedMeanwhile(t *testing.T) {
	word := Resolve{ID: one, Outcome: txn.BranchRolledBack, Reason: "stuck", Undecided: true}
	yes := Commit{ID: one, Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VotePrepared}}}
	no := Rollback{ID: one, Cause: txn.CauseClient}
	for _, c := range []struct {
		before []Command
		code   Code
		state  txn.State
		audit  int
	}{
		{nil, OK, txn.RollingBack, 1},
		{[]Command{word}, OK, txn.RollingBack, 1},
		{[]Command{yes}, Decided, txn.Committing, 0},
		{[]Command{no}, OK, txn.RollingBack, 0},
	} {
		m := (scenario{make: []Command{sole}}).build(t)
		res := m.Apply(Entry{Commands: append(c.before, word)}).Results[len(c.before)]
		x, _ := m.Get(one)
		audit := len(m.Audit()) - len((scenario{make: []Command{sole}}).build(t).Audit())
		if res.Code != c.code || x.State != c.state || x.Heuristic != 0 || audit != c.audit || x.Branches[0].State.Finished() {
			t.Errorf("after %+v: %+v, %d audited: %+v", c.before, res, audit, x)
		}
	}
}

// TestDelegationWantsOneSession: a branch that was enlisted from two connections has two that
// could commit; only a prepare under its one name tells which of them is the branch.
func TestDelegationWantsOneSession(t *testing.T) {
	m := (scenario{make: []Command{sole}}).build(t)
	code := func(m *Machine, c Command) Code { return m.Apply(Entry{Commands: []Command{c}}).Results[0].Code }
	from := func(s string) Command { return Enlist{ID: one, Branch: Branch{Participant: "bank", SessionRef: s}} }
	for _, s := range []string{"s1", "s1", ""} { // the first connection, and repeats
		if c := code(m, from(s)); c != OK {
			t.Fatalf("enlist from %q: %v", s, c)
		}
	}
	if c := code(copied(t, m), delegate); c != OK {
		t.Errorf("delegating to the only session: %v", c)
	}
	if c := code(m, from("s2")); c != OK {
		t.Fatal(c)
	}
	for name, m := range map[string]*Machine{"applied": m, "restored": copied(t, m)} {
		if c := code(m, delegate); c != NotSoleBranch {
			t.Errorf("%s: delegating to one of two sessions: %v", name, c)
		}
	}
}

// TestResolveAgainIsNoOtherWord: the retry of the resolution that rolled the
// transaction back says nothing about its branches, which are still to be driven.
func TestResolveAgainIsNoOtherWord(t *testing.T) {
	m := (scenario{make: []Command{begin}}).build(t)
	word := said(0, txn.BranchRolledBack)
	fx := do(t, m, word, word)
	if o := outcomeOf(t, m); o.State != txn.RollingBack || o.Cause != txn.CauseOperator || len(fx.Pending) != 0 {
		t.Errorf("%+v, %+v", o, fx)
	}
	if n := len(m.Audit()); n != 5 { // four participants were registered
		t.Errorf("%d audit records: %+v", n, m.Audit())
	}
	word.Reason = "the database is gone for good"
	do(t, m, word)
	x, _ := m.Get(one)
	if x.State != txn.RolledBack || x.Heuristic != 0 || x.Reason != "looked" {
		t.Errorf("%+v", x)
	}
}

func TestResolveSaysWhoSaidIt(t *testing.T) {
	m := (scenario{make: []Command{begin, commit, ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicHazard, Detail: "no such gid"}}}).build(t)
	do(t, m, said(1, txn.BranchRolledBack), said(2, txn.BranchCommitted))
	x, _ := m.Get(one)
	if x.Heuristic != txn.HeuristicMixed || x.Branches[0].Heuristic != txn.HeuristicRollback || x.Branches[0].Detail != "said by ann: looked" {
		t.Errorf("%+v", x)
	}
	var got []string
	for _, a := range m.Audit()[4:] {
		s := a.Public()
		got = append(got, strings.Join([]string{s.Action, s.ID.String(), s.Branch, s.Subject, s.By, s.Reason}, "|"))
	}
	want := []string{
		"resolve|" + one.String() + "|b1|b1 rolled-back|ann|looked",
		"resolve|" + one.String() + "|b2|b2 committed|ann|looked",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("audit (-want +got):\n%s", d)
	}
}

// TestAuditTellsWhatChanged: repeats and refused commands leave no record.
func TestAuditTellsWhatChanged(t *testing.T) {
	m := New()
	bank := AddParticipant{admin.Participant{Name: "bank", Kind: "ledger", Settings: map[string]string{"path": "a"}}}
	moved := AddParticipant{admin.Participant{Name: "bank", Kind: "ledger", Settings: map[string]string{"path": "b"}}}
	m.Apply(Entry{Commands: []Command{historyBoots[0]}})
	for i, c := range []Command{
		bank, bank, moved, moved,
		AddParticipant{admin.Participant{Name: "bank", Kind: "web"}},
		sole,
		Rollback{one, txn.CauseOperator, "stuck"},
		Rollback{one, txn.CauseOperator, "stuck"},
		RemoveParticipant{"bank"},
		ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicCommit},
		Forget{one, "ann", "seen"},
		Forget{one, "ann", "seen"},
		RemoveParticipant{"bank"},
		RemoveParticipant{"bank"},
		moved,
		Rollback{testID(9), txn.CauseOperator, ""},
	} {
		m.Apply(Entry{Tick: 1, Wall: 1000, Index: uint64(i), Commands: []Command{c}})
	}
	var got []string
	for i, a := range copied(t, m).Audit() {
		s := a.Public()
		got = append(got, fmt.Sprintf("%d %s %s %s %q", s.Index, s.Action, s.Subject, s.By, s.Reason))
		if s.Seq != uint64(i+1) || s.Tick != 1 || !s.Time.Equal(time.Unix(1, 0)) {
			t.Errorf("%+v", s)
		}
	}
	want := []string{
		`0 participant-add bank  ""`, `2 participant-add bank  ""`,
		`6 rollback ` + one.String() + `  "stuck"`,
		`10 forget ` + one.String() + ` ann "seen"`,
		`12 participant-remove bank  ""`, `14 participant-add bank  ""`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("audit (-want +got):\n%s", d)
	}
}

// TestAuditTellsWhoRegisteredWhat: the operator, the reason, and the changes of the settings,
// of which no value is kept that may be a secret.
func TestAuditTellsWhoRegisteredWhat(t *testing.T) {
	m := New()
	bank := func(by, reason string, settings ...string) Command {
		p := admin.Participant{Name: "bank", Kind: "postgres", Settings: map[string]string{}}
		for i := 0; i < len(settings); i += 2 {
			p.Settings[settings[i]] = settings[i+1]
		}
		return RegisterParticipant{Participant: p, By: by, Reason: reason}
	}
	m.Apply(Entry{Commands: []Command{historyBoots[0]}})
	var codes []Code
	for i, c := range []Command{
		bank("ann", "", "dsn", "host=a", "quota", "100"),
		bank("bob", "again", "dsn", "host=a", "quota", "100"), // changes nothing
		bank("bob", "moved", "dsn", "host=b", "fence", "off", "web", "https://u:p@h/"),
		bank("", "", "dsn_file", "/etc/bank.dsn", "web", "https://u:q@h/"),
		bank("ann", "", "a", strings.Repeat("é", 400), "b", strings.Repeat("é", 400)),
		bank(strings.Repeat("x", MaxBy+1), "", "quota", "1"),
		bank("ann", strings.Repeat("x", txn.MaxReason+1), "quota", "1"),
		UnregisterParticipant{Name: "bank", By: strings.Repeat("x", MaxBy+1)},
		UnregisterParticipant{Name: "bank", By: "ann", Reason: "not used"},
		UnregisterParticipant{Name: "bank", By: "ann", Reason: "not used"},
	} {
		codes = append(codes, m.Apply(Entry{Tick: 1, Wall: 1000, Index: uint64(i), Commands: []Command{c}}).Results[0].Code)
	}
	if want := []Code{OK, OK, OK, OK, OK, Malformed, Malformed, Malformed, OK, NoParticipant}; !slices.Equal(codes, want) {
		t.Errorf("codes %v; want %v", codes, want)
	}
	var got []string
	for _, a := range copied(t, m).Audit() {
		s := a.Public()
		got = append(got, fmt.Sprintf("%d %s %s: %s: %q", s.Index, s.Action, s.By, s.Subject, s.Reason))
		if len(s.Subject) > maxChanges+txn.MaxName || !utf8.ValidString(s.Subject) {
			t.Errorf("%d bytes about a change: %q", len(s.Subject), s.Subject)
		}
	}
	long := "kind postgres, a " + strings.Repeat("é", 400) + ", b " + strings.Repeat("é", 400)
	want := []string{
		`0 participant-add ann: bank: kind postgres, dsn (not shown), quota 100: ""`,
		`2 participant-add bob: bank: kind postgres, dsn changed, fence off, quota removed, web (not shown): "moved"`,
		`3 participant-add : bank: kind postgres, dsn removed, dsn_file /etc/bank.dsn, fence removed, web changed: ""`,
		`4 participant-add ann: bank: ` + strings.ToValidUTF8(long[:maxChanges-3], "") + `...: ""`,
		`8 participant-remove ann: bank: "not used"`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("audit (-want +got):\n%s", d)
	}
}

// TestAuditIsBounded: the newest records are kept, and a slice that a reader or a snapshot got
// stays as it is.
func TestAuditIsBounded(t *testing.T) {
	m := bootstrapped(t)
	m.fx = &Effects{} // as in an entry
	type held struct {
		records []AuditRecord
		first   uint64
	}
	var readers []held
	for n := 1; n <= 2*MaxAudit+5; n++ {
		m.appendAudit(AuditRecord{Action: ActionForget, ID: testID(uint64(n))})
		if n%999 == 0 || n > 2*MaxAudit {
			a := m.Audit()
			for _, h := range readers {
				_ = append(h.records, AuditRecord{Seq: 7}) // must not be seen by the others
			}
			readers = append(readers, held{a, a[0].Seq})
		}
	}
	if n := len(m.Audit()); n != MaxAudit {
		t.Errorf("%d records; want %d", n, MaxAudit)
	}
	for _, h := range readers {
		for i, a := range h.records {
			if want := h.first + uint64(i); a.Seq != want || a.ID != testID(want) {
				t.Fatalf("of %d records from %d on, number %d is %+v", len(h.records), h.first, i, a)
			}
		}
	}
	if last := readers[len(readers)-1].records; last[MaxAudit-1].Seq != 2*MaxAudit+5 {
		t.Errorf("the newest is %+v", last[MaxAudit-1])
	}
	c := copied(t, m)
	c.fx = &Effects{}
	c.appendAudit(AuditRecord{Action: ActionForget})
	if a := c.Audit(); a[MaxAudit-1].Seq != 2*MaxAudit+6 {
		t.Errorf("after a restore the next is %+v", a[MaxAudit-1])
	}
}

func TestNameAndReasonAreApart(t *testing.T) {
	b := begin
	b.Name, b.Labels = "a name that needs more than one cell to be held", []Label{{"order", "4711"}}
	m := (scenario{make: []Command{b, Rollback{one, txn.CauseClient, "because"}}}).build(t)
	x, _ := m.Get(one)
	if x.Name != b.Name || x.Reason != "because" || x.Labels[0] != b.Labels[0] {
		t.Errorf("%q, %q, %v", x.Name, x.Reason, x.Labels)
	}
}

func TestRestoreRefuses(t *testing.T) {
	m := (scenario{make: []Command{sole, delegate}}).build(t)
	x, _ := m.Get(one)
	with := func(change func(h *Header, t *Transaction)) error {
		s := m.Snapshot()
		defer s.Release()
		h, y := s.Header(), x
		h.Audit, y.Branches = slices.Clone(h.Audit), slices.Clone(x.Branches)
		change(&h, &y)
		_, err := Restore(h, nothing[*Session], single(&y))
		return err
	}
	if err := with(func(*Header, *Transaction) {}); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Header, *Transaction){
		"no state":                  func(_ *Header, t *Transaction) { t.State, t.Branches = 0, nil },
		"state of the next release": func(_ *Header, t *Transaction) { t.State = txn.RolledBack + 1 },
		"appointed, one of two":     func(_ *Header, t *Transaction) { t.State, t.Branches = txn.Active, append(t.Branches, t.Branches[0]) },
		"a vote beside an appointed": func(_ *Header, t *Transaction) {
			other := t.Branches[0]
			other.Vote = txn.VoteReadOnly
			t.State, t.Branches = txn.Active, append(t.Branches, other)
		},
		"ended by the application beside an appointed": func(_ *Header, t *Transaction) {
			other := t.Branches[0]
			other.Vote = txn.VoteEndedByApplication
			t.State, t.Cause, t.Branches = txn.Preparing, txn.CauseClient, append([]TransactionBranch{other}, t.Branches...)
		},
		"ended by the application and active": func(_ *Header, t *Transaction) { t.State, t.Branches[0].Vote = txn.Active, txn.VoteEndedByApplication },
		"delegated to one of two":             func(_ *Header, t *Transaction) { t.Branches = append(t.Branches, t.Branches[0]) },
		"vote of the next release":            func(_ *Header, t *Transaction) { t.Branches[0].Vote = txn.VoteEndedByApplication + 1 },
		"audit with a gap":                    func(h *Header, _ *Transaction) { h.Audit[1].Seq++ },
		"audit from 0 on":                     func(h *Header, _ *Transaction) { h.Audit[0].Seq = 0; h.Audit = h.Audit[:1] },
		"audit of nothing":                    func(h *Header, _ *Transaction) { h.Audit[2].Action = 0 },
		"audit of the next action":            func(h *Header, _ *Transaction) { h.Audit[2].Action = lastAction + 1 },
		"audit without bound":                 func(h *Header, _ *Transaction) { h.Audit = slices.Repeat(h.Audit, MaxAudit) },
	} {
		if with(change) == nil {
			t.Errorf("%s: restored", name)
		}
	}
}

func single(t *Transaction) iter.Seq2[*Transaction, error] {
	return func(yield func(*Transaction, error) bool) { yield(t, nil) }
}

// TestOpenTransactionsAreSmall: the goal is 400 bytes of live heap for an open
// transaction of two branches.
func TestOpenTransactionsAreSmall(t *testing.T) {
	if got := reflect.TypeFor[record]().Size(); got > 136 {
		t.Errorf("a record has %d bytes; think twice before it grows beyond 136", got)
	}
	const open = 200_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m := bootstrapped(t, "bank", "stock")
	for n := range uint64(open) {
		m.Apply(Entry{Commands: []Command{beginTwo(n+1, 300)}})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if got := float64(after.HeapAlloc-before.HeapAlloc) / open; got > 400 || m.Counts().Undecided != open {
		t.Errorf("%.0f bytes an open transaction, %d open", got, m.Counts().Undecided)
	}
}
