package indoubt

import (
	"context"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// Explain returns all that is known about a transaction, in any state, and asks its participants
// for the present state of its branches, each for at most 5 seconds.
func (c Calls) Explain(ctx context.Context, id txn.ID) (admin.Explanation, error) {
	t, err := c.transaction(ctx, "indoubt explain", id)
	if err != nil {
		return admin.Explanation{}, err
	}
	audit, err := c.Node.Audit(ctx, admin.AuditFilter{ID: id})
	if err != nil {
		return admin.Explanation{}, err
	}
	asked := c.probeBranches(ctx, &t, allBranches(&t))
	c.addAttempts(&t, asked)
	info := c.Node.Info(&t)
	return admin.Explanation{
		Transaction: info, Summary: c.summary(&t, &info, audit), Branches: asked,
		Actions: c.actions(&t, asked), Audit: audit,
	}, nil
}

func allBranches(t *machine.Transaction) []txn.BranchID {
	ids := make([]txn.BranchID, len(t.Branches))
	for i := range ids {
		ids[i] = txn.BranchID(i + 1)
	}
	return ids
}

// addAttempts adds the attempts of this leader's recovery.
func (c Calls) addAttempts(t *machine.Transaction, asked []admin.BranchProbe) {
	r := c.Node.Recovery()
	if r == nil {
		return
	}
	for id, h := range r.History(t.ID) {
		if k := int(id) - 1; k >= 0 && k < len(asked) && len(h.Attempts) > 0 {
			asked[k].Attempts, asked[k].EarlierAttempts = h.Attempts, h.Earlier
		}
	}
}
