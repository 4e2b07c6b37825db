package node

import (
	"context"

	"github.com/txmgr/txmgr/node/health"
	"github.com/txmgr/txmgr/node/participants"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// Doctor implements [admin.Cluster].
func (n adminCalls) Doctor(ctx context.Context, name string) ([]admin.Check, error) {
	if err := n.requireLeader(); err != nil && name != "" {
		return nil, txn.Wrap("doctor", txn.ID{}, err)
	}
	p := health.Participants{Open: n.participants.Get, Quota: n.admission.quotas.Usage, QuotaSetting: participants.QuotaSetting}
	if name == "" {
		names := n.recoveryLog().Participants()
		return health.CheckAll(ctx, n.healthFacts(names), p, names), nil
	}
	if _, ok := n.registration(name); !ok {
		return nil, &txn.Error{Op: "doctor", Err: txn.ErrNotFound, Detail: machine.NotRegistered(name)}
	}
	return p.Check(ctx, name), nil
}

// healthFacts returns what this node knows of itself and of the named participants.
func (n *Node) healthFacts(names []string) health.NodeFacts {
	f := health.NodeFacts{
		Version: Version(), DataDir: n.conf.DataDir, Cluster: n.clusterID(), Term: n.raft.CurrentTerm(), NotLeading: n.requireLeader(),
		Unfinished: n.admission.unfinished.Load(), MaxOpen: int64(n.conf.MaxOpen), Interval: n.interval(), Participants: len(names),
	}
	f.Log, f.LogErr = n.env.Log.Stats()
	f.Tick, _ = n.clock.Now()
	n.fsm.View(func(m *machine.Machine) { f.Heuristics = m.Counts().Heuristics })
	if r := n.recovery(); r != nil {
		for _, name := range names {
			if h := r.Health(name); !h.Healthy {
				f.Failing = append(f.Failing, health.FailingParticipant{Name: name, LastError: h.LastError})
			}
		}
	}
	return f
}
