package machine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// The transition table: every state × every command. A cell has the code of the answer and the
// state afterwards. The first row of a state is how it is made.

// scenario is a machine with a transaction, id 1, in the wanted state: branch b1 at
// bank (prepared by the application), b2 at web (asked by the coordinator).
type scenario struct {
	name string
	make []Command
	tick survival.Tick // advanced to after make
	held bool          // restored from a backup after make
}

var (
	one    = testID(1)
	begin  = Begin{ID: one, Name: "n", Timeout: time.Second, Survival: 11, Expiry: 10, Branches: []Branch{{Participant: "bank"}, {Participant: "web"}}}
	yes1   = txn.BranchVote{Branch: 1, Vote: txn.VotePrepared}
	yes2   = txn.BranchVote{Branch: 2, Vote: txn.VotePrepared}
	commit = Commit{ID: one, Votes: []txn.BranchVote{yes1, yes2}}
	undo   = Rollback{ID: one, Cause: txn.CauseClient}

	no2      = txn.BranchVote{Branch: 2, Vote: txn.VoteNo}
	sole     = Begin{ID: one, Name: "n", Timeout: time.Second, Survival: 11, Expiry: 10, Branches: []Branch{{Participant: "bank"}}}
	delegate = Delegate{one, 1}
	decides  = Begin{ID: one, Name: "n", Timeout: time.Second, Survival: 11, Expiry: 10, Branches: []Branch{{Participant: "bank", SessionRef: "s1", Decides: true}}}
	no1      = Vote{ID: one, Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VoteNo}}, Reason: "it rolled back"}
	typed1   = EndedByApplication{ID: one, Branch: 1, Reason: "COMMIT was typed"}
)

func acks(s txn.BranchState) ReportCompletion {
	return ReportCompletion{one, []txn.CompletionReport{{Branch: 1, State: s}, {Branch: 2, State: s}}}
}

func ack1(s txn.BranchState) ReportCompletion { return ackOf(1, s) }

func ackOf(b txn.BranchID, s txn.BranchState) ReportCompletion {
	return ReportCompletion{one, []txn.CompletionReport{{Branch: b, State: s}}}
}

// said is a resolution by an operator.
func said(b txn.BranchID, s txn.BranchState) Resolve {
	return Resolve{ID: one, Branch: b, Outcome: s, By: "ann", Reason: "looked"}
}

// stated is the statement of an operator that the branch ended so whose end decides.
func stated(b txn.BranchID, s txn.BranchState) Resolve {
	c := said(b, s)
	c.Decides = true
	return c
}

var worlds = []scenario{
	{name: "unknown"},
	{name: "active", make: []Command{begin}},
	{name: "preparing", make: []Command{begin, Commit{ID: one, Votes: []txn.BranchVote{yes1}}}},
	{name: "committing", make: []Command{begin, commit}},
	{name: "committed", make: []Command{begin, commit, acks(txn.BranchCommitted)}},
	{name: "committed, hazard", make: []Command{begin, commit, ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicRollback}, ReportCompletion{one, []txn.CompletionReport{{Branch: 2, State: txn.BranchCommitted}}}}},
	{name: "rolling-back", make: []Command{begin, undo}},
	{name: "rolled-back", make: []Command{begin, undo, acks(txn.BranchRolledBack)}},
	{name: "timed out", make: []Command{begin}, tick: 10},
	{name: "one tick left", make: []Command{begin}, tick: 9},
	{name: "active, b1 voted", make: []Command{begin, Vote{ID: one, Votes: []txn.BranchVote{yes1}}}},
	{name: "active, voted", make: []Command{begin, Vote{ID: one, Votes: []txn.BranchVote{yes1, yes2}}}},
	{name: "rolling-back, b2 voted no", make: []Command{begin, Vote{ID: one, Votes: []txn.BranchVote{no2}}}},
	{name: "rolled-back, hazard", make: []Command{begin, undo, ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicCommit}, ReportCompletion{one, []txn.CompletionReport{{Branch: 2, State: txn.BranchRolledBack}}}}},
	{name: "committing, b1 done", make: []Command{begin, commit, ack1(txn.BranchCommitted)}},
	{name: "committing, b1 unknown", make: []Command{begin, commit, ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicHazard}}},
	{name: "committed, b1 unknown", make: []Command{begin, commit, ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicHazard}, ReportCompletion{one, []txn.CompletionReport{{Branch: 2, State: txn.BranchCommitted}}}}},
	{name: "committed, b1 unknown, forgotten", make: []Command{begin, commit, ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicHazard}, ReportCompletion{one, []txn.CompletionReport{{Branch: 2, State: txn.BranchCommitted}}}, Forget{ID: one, Reason: "paid by hand"}}},
	{name: "sole", make: []Command{sole}},
	{name: "sole, voted", make: []Command{sole, Vote{ID: one, Votes: []txn.BranchVote{yes1}}}},
	{name: "delegated", make: []Command{sole, delegate}},
	{name: "delegated, time is over", make: []Command{sole, delegate}, tick: 1000},
	{name: "delegated, committed", make: []Command{sole, delegate, ack1(txn.BranchCommitted)}},
	{name: "delegated, rolled-back", make: []Command{sole, delegate, ack1(txn.BranchRolledBack)}},
	{name: "delegated, unknown", make: []Command{sole, delegate, ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicHazard}}},
	{name: "rolling-back, b1 ended by hand", make: []Command{begin, typed1}},
	{name: "rolled-back, b1 ended by hand", make: []Command{begin, typed1, acks(txn.BranchRolledBack)}},
	{name: "delegated, ended by hand", make: []Command{sole, delegate, typed1}},
	{name: "appointed", make: []Command{decides}},
	{name: "appointed, timed out", make: []Command{decides}, tick: 10},
	{name: "appointed, rollback asked for", make: []Command{decides, undo}},
	{name: "appointed, committed", make: []Command{decides, ack1(txn.BranchCommitted)}},
	{name: "appointed, rolled-back", make: []Command{decides, no1}},
	{name: "appointed, ended by hand", make: []Command{decides, typed1}},
	{name: "appointed, revoked", make: []Command{decides, Enlist{ID: one, Branch: Branch{Participant: "bank", SessionRef: "s1", Revokes: true}}}},
	{name: "appointed, revoked by a second", make: []Command{decides, Enlist{ID: one, Branch: Branch{Participant: "stock", Revokes: true}}}},
	{name: "held, unknown", held: true},
	{name: "held, active", make: []Command{begin}, held: true},
	{name: "held, committing", make: []Command{begin, commit}, held: true},
	{name: "held, timed out", make: []Command{begin}, tick: 10, held: true},
}

var otherBegin = func() Begin { b := begin; b.Name = "other"; return b }()

type namedCommand struct {
	name string
	c    Command
}

var commands = []namedCommand{
	{"begin again", begin},
	{"begin other", otherBegin},
	{"enlist new", Enlist{ID: one, Branch: Branch{Participant: "stock"}}},
	{"enlist again", Enlist{ID: one, Branch: Branch{Participant: "bank"}}},
	{"enlist other", Enlist{ID: one, Branch: Branch{Participant: "bank", Payload: []byte("x")}}},
	{"enlist nowhere", Enlist{ID: one, Branch: Branch{Participant: "nobody"}}},
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
	{"done b9", ReportCompletion{one, []txn.CompletionReport{{Branch: 9, State: txn.BranchCommitted}}}},
	{"hazard b1 committed", ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicCommit}},
	{"hazard b1 rolled back", ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicRollback}},
	{"hazard b1 unknown", ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicHazard}},
	{"hazard b9", ReportHeuristic{ID: one, Branch: 9, Heuristic: txn.HeuristicHazard}},
	{"forget", Forget{ID: one, Reason: "seen"}},
	{"begin sole", sole},
	{"enlist session", Enlist{ID: one, Branch: Branch{Participant: "bank", SessionRef: "s2"}}},
	{"vote b1", Vote{ID: one, Votes: []txn.BranchVote{yes1}}},
	{"vote b2", Vote{ID: one, Votes: []txn.BranchVote{yes2}}},
	{"vote b1 read-only", Vote{ID: one, Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VoteReadOnly}}}},
	{"vote b2 no", Vote{ID: one, Votes: []txn.BranchVote{no2}, Reason: "no room"}},
	{"vote b1, b2 no", Vote{ID: one, Votes: []txn.BranchVote{yes1, no2}}},
	{"vote b9", Vote{ID: one, Votes: []txn.BranchVote{{Branch: 9, Vote: txn.VotePrepared}}}},
	{"vote b1 delegated", Vote{ID: one, Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VoteDelegated}}}},
	{"vote nothing", Vote{ID: one}},
	{"vote long reason", Vote{ID: one, Reason: strings.Repeat("r", txn.MaxReason+1)}},
	{"vote b1 ended by hand", Vote{ID: one, Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VoteEndedByApplication}}}},
	{"b1 ended by hand", typed1},
	{"b2 ended by hand", EndedByApplication{ID: one, Branch: 2, Reason: "END"}},
	{"b9 ended by hand", EndedByApplication{ID: one, Branch: 9}},
	{"by hand, long reason", EndedByApplication{ID: one, Branch: 1, Reason: strings.Repeat("r", txn.MaxReason+1)}},
	{"delegate b1", delegate},
	{"delegate b9", Delegate{one, 9}},
	{"done nothing", ReportCompletion{ID: one}},
	{"done b1 committed", ack1(txn.BranchCommitted)},
	{"done b1 rolled back", ack1(txn.BranchRolledBack)},
	{"done b1 prepared", ack1(txn.BranchPrepared)},
	{"done b1 both", ReportCompletion{one, []txn.CompletionReport{{Branch: 1, State: txn.BranchCommitted}, {Branch: 1, State: txn.BranchRolledBack}}}},
	{"legacy b1 committed", ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicCommit, Legacy: true}},
	{"legacy b1 rolled back", ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicRollback, Legacy: true}},
	{"rollback operator", Rollback{one, txn.CauseOperator, "stuck"}},
	{"resolve committed", said(0, txn.BranchCommitted)},
	{"resolve rolled back", said(0, txn.BranchRolledBack)},
	{"resolve b1 committed", said(1, txn.BranchCommitted)},
	{"resolve b1 rolled back", said(1, txn.BranchRolledBack)},
	{"resolve b9", said(9, txn.BranchCommitted)},
	{"resolve prepared", said(0, txn.BranchPrepared)},
	{"resolve, no reason", Resolve{ID: one, Outcome: txn.BranchRolledBack}},
	{"state committed", stated(0, txn.BranchCommitted)},
	{"state rolled back", stated(0, txn.BranchRolledBack)},
	{"state b1 committed", stated(1, txn.BranchCommitted)},
	{"state b9", stated(9, txn.BranchCommitted)},
	{"begin appointed", decides},
	{"enlist new, revokes", Enlist{ID: one, Branch: Branch{Participant: "stock", Revokes: true}}},
	{"enlist new, decides", Enlist{ID: one, Branch: Branch{Participant: "stock", Decides: true}}},
	{"enlist again, revokes", Enlist{ID: one, Branch: Branch{Participant: "bank", SessionRef: "s1", Revokes: true}}},
	{"vote b1 no", no1},
	{"forget by", Forget{ID: one, By: "ann", Reason: "seen"}},
	{"forget by long", Forget{ID: one, By: strings.Repeat("n", MaxBy+1), Reason: "seen"}},
}

func (w scenario) build(t *testing.T) *Machine {
	m := bootstrapped(t, "bank", "stock", "post")
	m.Apply(Entry{Commands: []Command{AddParticipant{admin.Participant{Name: "web", Kind: "web", CoordinatorPrepares: true}}}})
	for _, c := range w.make {
		if r := m.Apply(Entry{Commands: []Command{c}}).Results[0]; r.Code != OK {
			t.Fatalf("%s: %T: code %d", w.name, c, r.Code)
		}
	}
	if w.held {
		m = restoredPaused(t, m)
	}
	if w.tick > 0 {
		m.expireBuf = nil // never move the group: the command must meet the derived fact
		m.Apply(Entry{Tick: w.tick})
	}
	return m
}

// restoredPaused is the machine as it is restored from a backup.
func restoredPaused(t interface{ Fatal(...any) }, m *Machine) *Machine {
	s := m.Snapshot()
	defer s.Release()
	h := s.Header()
	h.Incarnation, h.RecoveryPaused = h.Incarnation+1, true
	r, err := Restore(h, withoutError(s.Sessions()), withoutError(s.Transactions()))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var codeNames = []string{"ok", "not-bootstrapped", "not-found", "no-participant", "no-branch", "decided", "undecided", "conflict", "missing-vote", "bad-vote", "bad-ack", "too-many", "in-use", "malformed", "unfinished", "delegated", "not-in-doubt", "not-sole", "held", "no-token", "no-session", "session-over", "forgotten", "replaced"}

func TestTransitionTable(t *testing.T) {
	checkGolden(t, "transitions.txt", transitions(t, worlds, commands, describeState))
}

// transitions is the table of all worlds and commands, as text.
func transitions(t *testing.T, worlds []scenario, commands []namedCommand, describe func(*Machine, Result) string) string {
	var got strings.Builder
	for _, w := range worlds {
		fmt.Fprintf(&got, "%s\n", w.name)
		for _, c := range commands {
			m := w.build(t)
			before, hash := m.Counts(), m.Hash()
			res := m.Apply(Entry{Commands: []Command{c.c}}).Results[0]
			if err := m.CheckInvariants(); err != nil {
				t.Errorf("%s, %s: %v", w.name, c.name, err)
			}
			fmt.Fprintf(&got, "  %-22s %-15s %s\n", c.name, codeNames[res.Code], describe(m, res))
			if w.tick == 0 && res.Code != OK && !(res.Code == Decided && before != m.Counts()) && m.Hash() != hash {
				t.Errorf("%s, %s: refused with %s, but the state is another", w.name, c.name, codeNames[res.Code])
			}
			again := m.Apply(Entry{Commands: []Command{c.c}}).Results[0]
			if again.Code != res.Code && !(res.Code == OK && c.name == "begin again") {
				t.Errorf("%s, %s: %s, and at a repeat %s", w.name, c.name, codeNames[res.Code], codeNames[again.Code])
			}
		}
	}
	return got.String()
}

func describeState(m *Machine, res Result) string {
	o, ok := m.Lookup(one)
	if !ok {
		return "-"
	}
	s := o.State.String()
	byHand := ""
	if o.EndedByApplication {
		byHand = "by hand"
	}
	for _, more := range []string{o.Cause.String(), o.Heuristic.String(), byHand} {
		if more != "" {
			s += ", " + more
		}
	}
	if res.State != o.State && res.State != 0 {
		s += fmt.Sprintf(" (answered %v)", res.State)
	}
	return s
}
