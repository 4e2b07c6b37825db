package machine

import (
	"testing"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// enlistAt is an enlistment at a participant, which decides or revokes.
func enlistAt(participant string, decides, revokes bool) Enlist {
	return Enlist{ID: one, Branch: Branch{Participant: participant, SessionRef: "s1", Decides: decides, Revokes: revokes}}
}

// TestALateEnlistmentMovesNoAppointment: enlistments are sent again when their answer is lost, and copies arrive late. One that has
// been carried out gives no appointment, and takes none that came after it. It is refused when its client would take its
// branch for appointed otherwise.
func TestALateEnlistmentMovesNoAppointment(t *testing.T) {
	none := Begin{ID: one, Expiry: 10, Timeout: 1}
	bank, stock, post := enlistAt("bank", true, false), enlistAt("stock", true, true), enlistAt("post", true, true)
	for name, c := range map[string]struct {
		history []Command
		decider txn.BranchID
	}{
		"moved":                        {[]Command{none, bank, stock, post}, 3},
		"moved, and all come again":    {[]Command{none, bank, stock, post, bank, stock, post}, 3},
		"revoked before":               {[]Command{none, bank, enlistAt("stock", false, true), post, enlistAt("stock", false, true)}, 3},
		"an earlier one revokes again": {[]Command{none, bank, stock, enlistAt("bank", false, true)}, 2},
		"revoked":                      {[]Command{none, bank, stock, enlistAt("stock", false, true)}, 0},
		"revoked, and it comes again":  {[]Command{none, bank, stock, enlistAt("stock", false, true), stock, bank}, 0},
		"revoked by a later one":       {[]Command{none, bank, stock, enlistAt("post", false, true), stock, bank}, 0},
		"begun with two":               {[]Command{lastDecides, bank, stock}, 2},
		"begun with two, revoked":      {[]Command{lastDecides, revoked2, bank, stock, lastDecides}, 0},
	} {
		m := (scenario{name: name}).build(t)
		for _, e := range c.history {
			if r := m.Apply(Entry{Commands: []Command{e}}).Results[0]; r.Code != OK && r.Code != NotSoleBranch {
				t.Errorf("%s: %T: code %d", name, e, r.Code)
			} else if e, ok := e.(Enlist); ok && e.Branch.Decides {
				x, _ := m.Get(one)
				decider := x.Decider()
				if decides := decider != 0 && x.Branches[decider-1].Participant == e.Branch.Participant; decides != (r.Code == OK) {
					t.Errorf("%s: %s is to decide: code %d; decides: %v", name, e.Branch.Participant, r.Code, decides)
				}
			}
		}
		for where, m := range map[string]*Machine{"applied": m, "restored": copied(t, m)} {
			x, _ := m.Get(one)
			if x.Decider() != c.decider || x.Appointed() != (c.decider != 0) {
				t.Errorf("%s, %s: %v decides: %+v", name, where, x.Decider(), x)
			}
		}
	}
}

// TestNoVoteBesideAnAppointment: the commit of the branch that decides says that all others are prepared. None of them has said
// otherwise before, since no branch is appointed beside one that has voted, and none votes beside one that is appointed.
func TestNoVoteBesideAnAppointment(t *testing.T) {
	for vote := txn.VotePrepared; vote <= txn.VoteNo; vote++ {
		votes := []txn.BranchVote{{Branch: 1, Vote: vote}}
		m := (scenario{make: []Command{lastDecides}}).build(t)
		for _, c := range []Command{Vote{ID: one, Votes: votes}, Commit{ID: one, Votes: votes}} {
			if r := m.Apply(Entry{Commands: []Command{c}}).Results[0]; r.Code != Delegated || r.Branch != 2 {
				t.Errorf("%T of %v beside an appointment: %s of branch %v", c, vote, codeNames[r.Code], r.Branch)
			}
		}
		if vote == txn.VoteNo {
			continue // it decides
		}
		m = (scenario{make: []Command{sole, Vote{ID: one, Votes: votes}}}).build(t)
		for _, c := range []Command{enlistAt("stock", true, false), enlistAt("stock", true, true)} {
			if r := m.Apply(Entry{Commands: []Command{c}}).Results[0]; r.Code != NotSoleBranch || r.Branch != 2 {
				t.Errorf("appointed beside a branch that has voted %v: %s of branch %v", vote, codeNames[r.Code], r.Branch)
			}
		}
	}
}

// TestTheEndOfTheDeciderDecides: of several reports in one only that of the branch that decides is the decision. Its commit says that
// the others are prepared, which recovery then commits.
func TestTheEndOfTheDeciderDecides(t *testing.T) {
	m := (scenario{make: []Command{lastDecides}}).build(t)
	if r := m.Apply(Entry{Commands: []Command{ack1(txn.BranchCommitted)}}).Results[0]; r.Code != Undecided || r.State != txn.Active {
		t.Fatalf("the end of the other branch: %s, %v", codeNames[r.Code], r.State)
	}
	fx := do(t, m, ackOf(2, txn.BranchCommitted))
	x, _ := m.Get(one)
	if x.State != txn.Committing || x.Branches[0].Vote != txn.VotePrepared || x.Branches[0].State != txn.BranchPrepared || x.Branches[1].State != txn.BranchCommitted {
		t.Errorf("%+v", x)
	}
	if len(fx.Pending) != 1 || m.UnfinishedBranches("bank") != 1 || m.UnfinishedBranches("stock") != 0 {
		t.Errorf("%+v, %d unfinished at bank, %d at stock", fx, m.UnfinishedBranches("bank"), m.UnfinishedBranches("stock"))
	}
	do(t, copied(t, m), ack1(txn.BranchCommitted))
}

// TestTheReasonIsThatOfTheCause: what becomes known while the end of the branch that decides is being found out does not change why it
// is, and is not taken for a timeout that was late.
func TestTheReasonIsThatOfTheCause(t *testing.T) {
	because := undo
	because.Reason = "because"
	for name, c := range map[string]struct {
		make   []Command
		tick   survival.Tick
		next   Command
		cause  txn.Cause
		reason string
	}{
		"rolled back, then ended by the application":         {[]Command{lastDecides, because}, 0, typed1, txn.CauseClient, "because"},
		"rolled back, the decider ended by the application":  {[]Command{lastDecides, because}, 0, typed2, txn.CauseClient, "because"},
		"rolled back, then a no":                             {[]Command{lastDecides, because}, 0, vote2No, txn.CauseClient, "because"},
		"timed out, then ended by the application":           {[]Command{lastDecides}, 10, typed1, txn.CauseTimeout, ""},
		"timed out, the decider ended by the application":    {[]Command{lastDecides}, 10, typed2, txn.CauseTimeout, ""},
		"timed out, then a no":                               {[]Command{lastDecides}, 10, vote2No, txn.CauseTimeout, ""},
		"timed out, then the end":                            {[]Command{lastDecides}, 10, acks(txn.BranchRolledBack), txn.CauseTimeout, ""},
		"timed out, the only branch votes no":                {[]Command{decides}, 10, no1, txn.CauseTimeout, ""},
		"ended by the application, and nothing had happened": {[]Command{lastDecides}, 0, typed1, txn.CauseVoteNo, typed1.Reason},
	} {
		m := (scenario{make: c.make}).build(t)
		m.Apply(Entry{Tick: c.tick})
		m.Apply(Entry{Tick: c.tick + 5, Index: 77, Commands: []Command{c.next}})
		x, _ := copied(t, m).Get(one)
		if x.State.Commits() || !x.State.Decided() || x.Cause != c.cause || x.Reason != c.reason {
			t.Errorf("%s: %+v", name, x)
		}
		if _, ok := m.TimedOut(one, 77); ok || x.DecidedIndex != 77 {
			t.Errorf("%s: taken for a timeout of entry %d", name, x.DecidedIndex)
		}
	}
}

// TestNothingIsLeftOfSeveral: whatever ends a transaction of several branches, its strings are given back.
func TestNothingIsLeftOfSeveral(t *testing.T) {
	because := undo
	because.Reason = "a reason that needs more than one cell to be held"
	for name, history := range map[string][]Command{
		"committed":                {lastDecides, acks(txn.BranchCommitted)},
		"asked for, and committed": {lastDecides, because, ackOf(2, txn.BranchCommitted), ack1(txn.BranchCommitted)},
		"asked for, and not":       {lastDecides, because, acks(txn.BranchRolledBack)},
		"asked for, by hand":       {lastDecides, because, typed1, typed2, acks(txn.BranchRolledBack)},
		"asked for, a no":          {lastDecides, because, vote2No, acks(txn.BranchRolledBack)},
		"by hand":                  {lastDecides, typed2, acks(txn.BranchRolledBack)},
		"stated":                   {lastDecides, because, stated(2, txn.BranchCommitted), acks(txn.BranchCommitted)},
		"stated otherwise":         {lastDecides, because, stated(2, txn.BranchRolledBack), acks(txn.BranchRolledBack)},
		"moved":                    {decides, takesOver, enlistAt("post", true, true), ackOf(3, txn.BranchCommitted), acks(txn.BranchCommitted)},
	} {
		m := (scenario{name: name, make: history}).build(t)
		m.Apply(Entry{Tick: 1 << 40})
		if n := m.Counts(); n.Undecided+n.Completing+n.Finished+n.Heuristics != 0 || m.strings.Len() != 0 || m.branches.Len() != 0 || m.txs.Len() != 0 {
			t.Errorf("%s: %+v, and %d cells, %d branches, %d records", name, n, m.strings.Len(), m.branches.Len(), m.txs.Len())
		}
	}
}
