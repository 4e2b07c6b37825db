package node

import (
	"context"

	"github.com/txmgr/txmgr/adaptive"
	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// decisionsPerParticipant is how many decisions are listed of each participant when none is named.
const decisionsPerParticipant = 10

// Pools implements [admin.Participants].
func (n adminCalls) Pools(ctx context.Context, participant string) ([]admin.Pool, error) {
	if err := n.requireReadable(ctx); err != nil {
		return nil, txn.Wrap("pools", txn.ID{}, err)
	}
	r := n.recovery()
	if r == nil {
		return nil, &txn.Error{Op: "pools", Err: txn.ErrUnavailable, Detail: "this node does not lead"}
	}
	if participant != "" {
		if _, ok := n.registration(participant); !ok {
			return nil, &txn.Error{Op: "pools", Err: txn.ErrNotFound, Detail: machine.NotRegistered(participant)}
		}
		return []admin.Pool{pool(r, participant, r.Decisions(participant))}, nil
	}
	out := []admin.Pool{}
	for _, name := range n.recoveryLog().Participants() {
		all := r.Decisions(name)
		out = append(out, pool(r, name, all[max(0, len(all)-decisionsPerParticipant):]))
	}
	return out, nil
}

func pool(r *recovery.Recovery, name string, decisions []adaptive.DecisionRecord) admin.Pool {
	h := r.Health(name)
	p := admin.Pool{
		Participant: name, Optimizer: h.Optimizer, Limit: h.Limit, Running: h.Running, Queued: h.Queued,
		Throughput: h.Throughput, Mean: txn.Duration(h.Mean), P99: txn.Duration(h.P99),
		Raised: h.Raised, Lowered: h.Lowered, Decisions: make([]admin.PoolDecision, len(decisions)),
	}
	for i, d := range decisions {
		p.Decisions[i] = poolDecision(d)
	}
	return p
}

func poolDecision(d adaptive.DecisionRecord) admin.PoolDecision {
	return admin.PoolDecision{
		At: d.At.UTC(), From: d.From, To: d.To, Why: d.Why, Rate: d.Rate, Busy: d.Busy, Bound: d.Bound,
		Mean: txn.Duration(d.Mean), P99: txn.Duration(d.P99), Queued: d.QueueLen,
	}
}
