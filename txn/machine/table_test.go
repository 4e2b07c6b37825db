package machine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// The transition table: every state × every command. A cell says the code of the
// answer and the state afterwards. The first row of a state is how it is made.

// world is a machine with a transaction, id 1, in the wanted state: branch b1 at
// bank (prepared by the application), b2 at web (asked by the coordinator).
type world struct {
	name string
	make []Command
	tick survival.Tick // advanced to after make
}

var (
	one    = testID(1)
	begin  = Begin{ID: one, Name: "n", Timeout: time.Second, Survival: 11, Expiry: 10, Branches: []Branch{{Participant: "bank"}, {Participant: "web"}}}
	yes1   = txn.BranchVote{Branch: 1, Vote: txn.VotePrepared}
	yes2   = txn.BranchVote{Branch: 2, Vote: txn.VotePrepared}
	commit = Commit{ID: one, Votes: []txn.BranchVote{yes1, yes2}}
	undo   = Rollback{ID: one, Cause: txn.CauseClient}
)

func acks(s txn.BranchState) Done {
	return Done{one, []txn.Ack{{Branch: 1, State: s}, {Branch: 2, State: s}}}
}

var worlds = []world{
	{name: "unknown"},
	{name: "active", make: []Command{begin}},
	{name: "preparing", make: []Command{begin, Commit{ID: one, Votes: []txn.BranchVote{yes1}}}},
	{name: "committing", make: []Command{begin, commit}},
	{name: "committed", make: []Command{begin, commit, acks(txn.BranchCommitted)}},
	{name: "committed, hazard", make: []Command{begin, commit, Hazard{ID: one, Branch: 1, Hazard: txn.HazardRolledBack}, Done{one, []txn.Ack{{Branch: 2, State: txn.BranchCommitted}}}}},
	{name: "rolling-back", make: []Command{begin, undo}},
	{name: "rolled-back", make: []Command{begin, undo, acks(txn.BranchRolledBack)}},
	{name: "timed out", make: []Command{begin}, tick: 10},
	{name: "one tick left", make: []Command{begin}, tick: 9},
}

var otherBegin = func() Begin { b := begin; b.Name = "other"; return b }()

var commands = []struct {
	name string
	c    Command
}{
	{"begin again", begin},
	{"begin other", otherBegin},
	{"enlist new", Enlist{one, Branch{Participant: "stock"}}},
	{"enlist again", Enlist{one, Branch{Participant: "bank"}}},
	{"enlist other", Enlist{one, Branch{Participant: "bank", Payload: []byte("x")}}},
	{"enlist nowhere", Enlist{one, Branch{Participant: "nobody"}}},
	{"commit", commit},
	{"commit some", Commit{ID: one, Votes: []txn.BranchVote{yes1}}},
	{"commit none", Commit{ID: one}},
	{"commit no", Commit{ID: one, Votes: []txn.BranchVote{{Branch: 2, Vote: txn.VoteNo}}}},
	{"commit b9", Commit{ID: one, Votes: []txn.BranchVote{{Branch: 9, Vote: txn.VotePrepared}}}},
	{"commit changed", Commit{ID: one, Votes: []txn.BranchVote{yes2, {Branch: 1, Vote: txn.VoteReadOnly}, yes1}}},
	{"rollback", undo},
	{"rollback bad", Rollback{ID: one, Cause: txn.CauseTimeout}},
	{"extend", Extend{one, time.Minute, 601, 700}},
	{"extend less", Extend{one, time.Millisecond, 2, 2}},
	{"done committed", acks(txn.BranchCommitted)},
	{"done rolled back", acks(txn.BranchRolledBack)},
	{"done b9", Done{one, []txn.Ack{{Branch: 9, State: txn.BranchCommitted}}}},
	{"hazard b1 committed", Hazard{ID: one, Branch: 1, Hazard: txn.HazardCommitted}},
	{"hazard b1 rolled back", Hazard{ID: one, Branch: 1, Hazard: txn.HazardRolledBack}},
	{"hazard b1 unknown", Hazard{ID: one, Branch: 1, Hazard: txn.HazardUnknown}},
	{"hazard b9", Hazard{ID: one, Branch: 9, Hazard: txn.HazardUnknown}},
	{"forget", Forget{ID: one, Reason: "seen"}},
}

func (w world) build(t *testing.T) *Machine {
	m := bootstrapped(t, "bank", "stock")
	m.Apply(Entry{Commands: []Command{AddParticipant{txn.Participant{Name: "web", Kind: "web", CoordinatorPrepares: true}}}})
	for _, c := range w.make {
		if r := m.Apply(Entry{Commands: []Command{c}}).Results[0]; r.Code != OK {
			t.Fatalf("%s: %T: code %d", w.name, c, r.Code)
		}
	}
	if w.tick > 0 {
		m.due = nil // never drain the group: the command must meet the derived fact
		m.Apply(Entry{Tick: w.tick})
	}
	return m
}

var codeNames = []string{"ok", "not-bootstrapped", "not-found", "no-participant", "no-branch", "decided", "undecided", "conflict", "missing-vote", "bad-vote", "bad-ack", "too-many", "in-use", "malformed", "unfinished"}

func TestTransitionTable(t *testing.T) {
	var got strings.Builder
	for _, w := range worlds {
		fmt.Fprintf(&got, "%s\n", w.name)
		for _, c := range commands {
			m := w.build(t)
			before, hash := m.Counts(), m.Hash()
			res := m.Apply(Entry{Commands: []Command{c.c}}).Results[0]
			if err := m.Check(); err != nil {
				t.Errorf("%s, %s: %v", w.name, c.name, err)
			}
			fmt.Fprintf(&got, "  %-22s %-15s %s\n", c.name, codeNames[res.Code], place(m, res))
			if w.tick == 0 && res.Code != OK && !(res.Code == Decided && before != m.Counts()) && m.Hash() != hash {
				t.Errorf("%s, %s: refused with %s, but the state is another", w.name, c.name, codeNames[res.Code])
			}
			again := m.Apply(Entry{Commands: []Command{c.c}}).Results[0]
			if again.Code != res.Code && !(res.Code == OK && c.name == "begin again") {
				t.Errorf("%s, %s: %s, and at a repeat %s", w.name, c.name, codeNames[res.Code], codeNames[again.Code])
			}
		}
	}
	checkGolden(t, "transitions.txt", got.String())
}

func place(m *Machine, res Result) string {
	o, ok := m.Lookup(one)
	if !ok {
		return "-"
	}
	s := o.State.String()
	for _, more := range []string{o.Cause.String(), o.Hazard.String()} {
		if more != "" {
			s += ", " + more
		}
	}
	if res.State != o.State && res.State != 0 {
		s += fmt.Sprintf(" (answered %v)", res.State)
	}
	return s
}
