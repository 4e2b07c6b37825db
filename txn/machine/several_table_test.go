package machine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// The transition table of transactions with two branches, at bank and stock, that the application prepares, and of which b2
// decides or has decided. A cell also has the vote and the state of each branch.

var (
	// Two branches that the application prepares, of which b2 decides: begun so, and enlisted so.
	lastDecides = Begin{ID: one, Name: "n", Timeout: time.Second, Survival: 11, Expiry: 10, Branches: []Branch{{Participant: "bank", SessionRef: "s1"}, {Participant: "stock", SessionRef: "s1", Decides: true}}}
	takesOver   = Enlist{ID: one, Branch: Branch{Participant: "stock", SessionRef: "s1", Decides: true, Revokes: true}}
	typed2      = EndedByApplication{ID: one, Branch: 2, Reason: "END"}
	vote2No     = Vote{ID: one, Votes: []txn.BranchVote{{Branch: 2, Vote: txn.VoteNo}}, Reason: "it rolled back"}
	revoked2    = Enlist{ID: one, Branch: Branch{Participant: "stock", SessionRef: "s1", Revokes: true}}
)

var worldsOfSeveral = []scenario{
	{name: "b2 decides", make: []Command{lastDecides}},
	{name: "b2 has taken over", make: []Command{decides, takesOver}},
	{name: "b2 decides, timed out", make: []Command{lastDecides}, tick: 10},
	{name: "b2 decides, rollback asked for", make: []Command{lastDecides, undo}},
	{name: "b2 decided, committed", make: []Command{lastDecides, acks(txn.BranchCommitted)}},
	{name: "b2 decided, b1 to be committed", make: []Command{lastDecides, ackOf(2, txn.BranchCommitted)}},
	{name: "b2 decided, rolled-back", make: []Command{lastDecides, acks(txn.BranchRolledBack)}},
	{name: "b2 decided, b1 to be rolled back", make: []Command{lastDecides, vote2No}},
	{name: "b2 decides, b1 ended by the application", make: []Command{lastDecides, typed1}},
	{name: "b2 decides, ended by the application", make: []Command{lastDecides, typed2}},
	{name: "b2 decides no more", make: []Command{lastDecides, revoked2}},
	{name: "b2 decides no more, b1 voted", make: []Command{lastDecides, revoked2, Vote{ID: one, Votes: []txn.BranchVote{yes1}}}},
}

var commandsOfSeveral = []namedCommand{
	{"done b2 committed", ackOf(2, txn.BranchCommitted)},
	{"done b2 rolled back", ackOf(2, txn.BranchRolledBack)},
	{"done, ends differ", ReportCompletion{one, []txn.CompletionReport{{Branch: 2, State: txn.BranchCommitted}, {Branch: 1, State: txn.BranchRolledBack}}}},
	{"vote b2 no alone", vote2No},
	{"hazard b2 unknown", ReportHeuristic{ID: one, Branch: 2, Heuristic: txn.HeuristicHazard}},
	{"delegate b2", Delegate{one, 2}},
	{"state b2 committed", stated(2, txn.BranchCommitted)},
	{"begin, b2 decides", lastDecides},
	{"enlist b2 as it was", takesOver},
	{"enlist b2, revokes", revoked2},
	{"enlist third", Enlist{ID: one, Branch: Branch{Participant: "post"}}},
	{"third, revokes", Enlist{ID: one, Branch: Branch{Participant: "post", Revokes: true}}},
	{"third, takes over", Enlist{ID: one, Branch: Branch{Participant: "post", Decides: true, Revokes: true}}},
	{"web, takes over", Enlist{ID: one, Branch: Branch{Participant: "web", Decides: true, Revokes: true}}},
}

func TestTransitionTableOfSeveral(t *testing.T) {
	all := slices.Concat(commands, commandsOfSeveral)
	checkGolden(t, "transitions_several.txt", transitions(t, worldsOfSeveral, all, describeBranches))
}

// describeBranches is describeState, the branch that decides, and for each branch its vote and its state.
func describeBranches(m *Machine, res Result) string {
	s := describeState(m, res)
	x, _ := m.Get(one)
	if d := x.Decider(); d != 0 {
		s += fmt.Sprintf(", %v decides", d)
	}
	for _, b := range x.Branches {
		s += fmt.Sprintf("; %v %v", b.Vote, b.State)
	}
	return s
}
