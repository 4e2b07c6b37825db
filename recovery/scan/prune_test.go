package scan

import (
	"context"
	"testing"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
)

// stubPruner asks about one page of branches.
type stubPruner struct {
	participant.Participant
	page []string
}

func (p stubPruner) Prune(ctx context.Context, _ int, obsolete func(context.Context, []string) ([]bool, error)) (int, error) {
	is, err := obsolete(ctx, p.page)
	removed := 0
	for _, ok := range is {
		if ok {
			removed++
		}
	}
	return removed, err
}

// stubLog has one participant, and knows no transaction.
type stubLog struct{ p participant.Participant }

func (stubLog) Lookup(_ context.Context, keys []plan.Key) ([]plan.BranchStatus, error) {
	return make([]plan.BranchStatus, len(keys)), nil
}

func (l stubLog) Participant(context.Context, string) (participant.Participant, error) {
	return l.p, nil
}

// TestPrunePageIsLimited: a participant may ask about one page of branches at once, and no more.
func TestPrunePageIsLimited(t *testing.T) {
	for n, want := range map[int]string{1000: "", 1001: "asked about 1001 branches at once; at most 1000"} {
		page := make([]string, n)
		for i := range page {
			page[i] = txn.XID("c1", txn.ID{15: 1}, 1)
		}
		s := Scanner{Log: stubLog{stubPruner{page: page}}, Cluster: "c1", CallTimeout: time.Second}
		more, err := s.Prune(t.Context(), "a", func(keys []plan.Key) []bool { return make([]bool, len(keys)) })
		got := ""
		if err != nil {
			got = err.Error()
		}
		if more || got != want {
			t.Errorf("%d branches: more %v, error %q, want %q", n, more, got, want)
		}
	}
}

// hourLog remembers outcomes for an hour, and knows no transaction.
type hourLog struct{ stubLog }

func (hourLog) Lookup(_ context.Context, keys []plan.Key) ([]plan.BranchStatus, error) {
	known := make([]plan.BranchStatus, len(keys))
	for i := range known {
		known[i].RetentionHorizon, known[i].Retention = time.Minute, time.Hour // there were many outcomes
	}
	return known, nil
}

// TestPruneKeepsWhatABeginMayStillNeed: the begin that appoints a branch may arrive after the branch has committed, and is accepted
// until its id is as old as the retention time, by the clock of the leader of that moment.
func TestPruneKeepsWhatABeginMayStillNeed(t *testing.T) {
	for age, want := range map[time.Duration]bool{
		0: false, time.Hour - time.Second: false, time.Hour + ClockSlack - time.Second: false, time.Hour + ClockSlack: true,
	} {
		s := Scanner{Log: hourLog{}, Cluster: "c1", CallTimeout: time.Second}
		xid := txn.XID("c1", txn.NewID(time.Now().Add(-age), [9]byte{1}), 1)
		got, err := s.obsolete(t.Context(), []string{xid}, func([]plan.Key) []bool { return []bool{false} })
		if err != nil || got[0] != want {
			t.Errorf("the row of an id that is %v old: pruned %v, %v; want %v", age, got, err, want)
		}
	}
}

// stateLog has every transaction in one state.
type stateLog struct {
	stubLog
	known plan.BranchStatus
}

func (l stateLog) Lookup(_ context.Context, keys []plan.Key) ([]plan.BranchStatus, error) {
	known := make([]plan.BranchStatus, len(keys))
	for i := range known {
		known[i] = l.known
	}
	return known, nil
}

// TestPruneKeepsWhatMayStillBeAsked: the row of a branch that decides is needed until its transaction is finished, however old
// that is, and while its end is a hazard.
func TestPruneKeepsWhatMayStillBeAsked(t *testing.T) {
	decider := plan.Branch{Participant: "bank", Branch: participant.Branch{ID: 1, Vote: txn.VoteDelegated}}
	for name, c := range map[string]struct {
		known  plan.BranchStatus
		pruned bool
	}{
		"appointed":          {plan.BranchStatus{State: txn.Active, Decider: decider}, false},
		"asked how it ended": {plan.BranchStatus{State: txn.Preparing}, false},
		"committing":         {plan.BranchStatus{State: txn.Committing}, false},
		"rolling back":       {plan.BranchStatus{State: txn.RollingBack}, false},
		"a hazard":           {plan.BranchStatus{State: txn.RolledBack, Heuristic: txn.HeuristicHazard}, false},
		"committed":          {plan.BranchStatus{State: txn.Committed}, true},
		"rolled back":        {plan.BranchStatus{State: txn.RolledBack}, true},
	} {
		s := Scanner{Log: stateLog{known: c.known}, Cluster: "c1", CallTimeout: time.Second}
		xid := txn.XID("c1", txn.NewID(time.Now().Add(-1000*time.Hour), [9]byte{1}), 1)
		got, err := s.obsolete(t.Context(), []string{xid}, func([]plan.Key) []bool { return []bool{false} })
		if err != nil || got[0] != c.pruned {
			t.Errorf("%s: pruned %v, %v", name, got, err)
		}
	}
}
