package node

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/adaptive"
	"github.com/txmgr/txmgr/txn"
)

// growingOptimizer is an optimizer that allows one more with every window, up to 40.
type growingOptimizer struct{}

func (growingOptimizer) Period() time.Duration { return 10 * time.Millisecond }

func (growingOptimizer) Observe(w *adaptive.Window) adaptive.Decision {
	if w.Limit == 40 {
		return adaptive.Decision{Limit: w.Limit}
	}
	return adaptive.Decision{Limit: w.Limit + 1, Why: fmt.Sprintf("%d is not enough", w.Limit)}
}

// TestPools: the concurrency limit of a participant is listed with every retained decision, of all
// participants with the last few, and with none if nothing was done there.
func TestPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, t.TempDir(), with(participantMap{"bank": newFakeParticipant(), "shop": yesAfter(0)}), func(c *Config) {
			c.Recovery.NewOptimizer = func() adaptive.Optimizer { return growingOptimizer{} }
			c.Recovery.Start = 4
		})
		b := beginAt(t, n, time.Minute, "shop")
		if _, err := n.Commit(t.Context(), b.ID, txn.CommitRequest{}); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		all, err := n.Admin().Pools(t.Context(), "")
		if err != nil || len(all) != 2 || all[0].Participant != "bank" || all[1].Participant != "shop" {
			t.Fatalf("%+v, %v", all, err)
		}
		if bank, shop := all[0], all[1]; bank.Limit != 4 || len(bank.Decisions) != 0 || len(shop.Decisions) != decisionsPerParticipant || shop.Limit != 40 {
			t.Errorf("bank %+v, shop %+v", bank, shop)
		}
		one, err := n.Admin().Pools(t.Context(), "shop")
		if err != nil || len(one) != 1 || one[0].Raised != 36 || len(one[0].Decisions) != 36 {
			t.Fatalf("%+v, %v", one, err)
		}
		for i, d := range one[0].Decisions {
			if d.From != i+4 || d.To != i+5 || d.Why != fmt.Sprintf("%d is not enough", i+4) || d.At.IsZero() {
				t.Errorf("decision %d: %+v", i, d)
			}
		}
		health, err := n.Admin().Participants(t.Context())
		if err != nil || health[1].Limit != 40 || health[1].Raised != 36 || health[1].Decision == nil || health[1].Decision.To != 40 || health[0].Decision != nil {
			t.Errorf("%+v, %v", health, err)
		}
		_, err = n.Admin().Pools(t.Context(), "nobody")
		wantErr(t, "pools of a stranger", err, txn.ErrNotFound)
	})
}
