package recoverylog

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// several is a log with one transaction of three branches, of which b2, at bank, decides. Its deadline is tick 100.
type several struct {
	*Log
	m  *machine.Machine
	id txn.ID
}

func newSeveral(t *testing.T) several {
	t.Helper()
	s := several{m: machine.New(), id: txn.NewID(time.Now(), [9]byte{1})}
	s.Log = &Log{
		View: func(read func(*machine.Machine)) { read(s.m) },
		Term: func() uint64 { return 1 }, RequireReadable: func(context.Context) error { return nil },
	}
	s.apply(t, machine.Bootstrap{Cluster: "k7q", Interval: time.Second, Retention: time.Hour, Retain: 1000})
	var branches []machine.Branch
	for _, name := range []string{"stock", "bank", "post"} {
		s.apply(t, machine.RegisterParticipant{Participant: admin.Participant{Name: name, Kind: "ledger"}})
		branches = append(branches, machine.Branch{Participant: name, SessionRef: "at " + name, Decides: name == "bank"})
	}
	s.apply(t, machine.Begin{ID: s.id, Timeout: 99 * time.Second, Survival: 99, Expiry: 100, Branches: branches})
	return s
}

func (s several) apply(t *testing.T, c machine.Command) machine.Effects {
	t.Helper()
	fx := s.m.Apply(machine.Entry{Tick: 1, Commands: []machine.Command{c}})
	if fx.Results[0].Code != machine.OK {
		t.Fatalf("%T: %v", c, fx.Results[0].Code)
	}
	return fx
}

// status is what a sweep is told of a branch.
func (s several) status(t *testing.T, b txn.BranchID) recovery.BranchStatus {
	t.Helper()
	known, err := s.Lookup(t.Context(), []recovery.Key{{TX: s.id, Branch: b}})
	if err != nil {
		t.Fatal(err)
	}
	return known[0]
}

func (s several) pending(t *testing.T) (w recovery.PendingTx, actions map[txn.BranchID]plan.Action) {
	t.Helper()
	w, _ = s.Pending(s.id)
	actions = make(map[txn.BranchID]plan.Action)
	for i := range w.Branches {
		actions[w.Branches[i].ID] = w.Action(&w.Branches[i])
	}
	return w, actions
}

// TestSeveralOfWhichOneDecides: what recovery is told of the branches of a transaction, from the appointment of one to the decision.
func TestSeveralOfWhichOneDecides(t *testing.T) {
	s := newSeveral(t)
	if w, ok := s.Pending(s.id); ok {
		t.Errorf("active: %+v is pending", w)
	}
	for b := range txn.BranchID(3) {
		k := s.status(t, b+1)
		if d := k.Decider; d.Participant != "bank" || d.ID != 2 || d.XID != txn.XID("k7q", s.id, 2) || d.SessionRef != "at bank" || d.Vote != txn.VoteDelegated {
			t.Errorf("active: b%d waits for %+v", b+1, d)
		}
		if k.Unfinished || plan.OrphanAction(k, 2*time.Hour, 2*time.Hour) != 0 {
			t.Errorf("active: the sweep would have b%d ended: %+v", b+1, k)
		}
	}

	fx := s.apply(t, machine.Rollback{ID: s.id, Cause: txn.CauseSessionExpired})
	if !slices.Contains(fx.Pending, s.id) {
		t.Error("recovery is not told to ask at once")
	}
	w, actions := s.pending(t)
	if len(actions) != 1 || actions[2] != plan.ResolveOutcome || w.TimeLeft != 0 || w.AwaitsDeadline() {
		t.Errorf("to be found out: %+v, %v", w, actions)
	}
	for b := range txn.BranchID(3) {
		k := s.status(t, b+1)
		if plan.OrphanAction(k, 2*time.Hour, 2*time.Hour) != 0 || plan.ReadsDecider(k, time.Hour, 0) || k.Decider.ID != 0 {
			t.Errorf("to be found out: the sweep would act on b%d: %+v", b+1, k)
		}
	}
	if isUrgent(s.m, s.id, true, 50) || !isUrgent(s.m, s.id, false, 100) {
		t.Error("urgent before its deadline, or not at it")
	}
}

// TestDecisionOfSeveral: the end of the branch that decides is the decision, and the others are driven to it at once: no client has
// said that it does that.
func TestDecisionOfSeveral(t *testing.T) {
	const b2 = txn.BranchID(2)
	for name, c := range map[string]struct {
		result recovery.BranchResult
		state  txn.State
		action plan.Action
		hazard txn.Heuristic
	}{
		"committed":   {recovery.BranchResult{Branch: b2, State: txn.BranchCommitted}, txn.Committing, plan.Commit, 0},
		"rolled back": {recovery.BranchResult{Branch: b2, State: txn.BranchRolledBack}, txn.RollingBack, plan.Rollback, 0},
		"no proof":    {recovery.BranchResult{Branch: b2, Heuristic: txn.HeuristicHazard, Detail: "gone"}, txn.RollingBack, plan.Rollback, txn.HeuristicHazard},
	} {
		for _, asked := range []bool{false, true} {
			if !asked && name != "committed" {
				continue // a sweep that reads reports nothing else
			}
			s := newSeveral(t)
			if asked {
				s.apply(t, machine.Rollback{ID: s.id, Cause: txn.CauseClient})
			}
			var fx machine.Effects
			for _, command := range s.reportCommands(s.id, []recovery.BranchResult{c.result}) {
				fx = s.apply(t, command)
			}
			if !slices.Contains(fx.Pending, s.id) {
				t.Errorf("%s: the others are not driven at once: %+v", name, fx)
			}
			w, actions := s.pending(t)
			if w.State != c.state || len(actions) != 2 || actions[1] != c.action || actions[3] != c.action {
				t.Errorf("%s, asked %v: %v, %v", name, asked, w.State, actions)
			}
			for _, b := range w.Branches {
				if w.LeftToClient(&b) {
					t.Errorf("%s: %v is left to a client", name, b.ID)
				}
				if k := s.status(t, b.ID); !k.Unfinished || k.Decider.ID != 0 || k.Heuristic != c.hazard {
					t.Errorf("%s: %+v", name, k)
				}
			}
			if err := s.m.CheckInvariants(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestOtherEndsDecideNothing: what is reported of a branch that does not decide leaves the transaction as it was.
func TestOtherEndsDecideNothing(t *testing.T) {
	s := newSeveral(t)
	for _, r := range []recovery.BranchResult{
		{Branch: 1, State: txn.BranchCommitted},
		{Branch: 3, State: txn.BranchRolledBack},
		{Branch: 1, Heuristic: txn.HeuristicHazard},
		{Branch: 3, Vote: txn.VotePrepared},
	} {
		for _, c := range s.reportCommands(s.id, []recovery.BranchResult{r}) {
			if res := s.m.Apply(machine.Entry{Tick: 1, Commands: []machine.Command{c}}).Results[0]; res.Code == machine.OK {
				t.Errorf("%+v was accepted", c)
			}
		}
		if tx, _ := s.m.Get(s.id); !tx.Appointed() || tx.Decider() != 2 {
			t.Errorf("after %+v: %+v", r, tx)
		}
	}
}
