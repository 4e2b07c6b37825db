package wire

import (
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/txn/admin"
)

// FromPools gives the message for the concurrency limits of participants.
func FromPools(ps []admin.Pool) *txmgrv1.PoolsResponse {
	m := &txmgrv1.PoolsResponse{Pools: make([]*txmgrv1.Pool, len(ps))}
	for n, p := range ps {
		m.Pools[n] = &txmgrv1.Pool{
			Participant: Text(p.Participant), Optimizer: Text(p.Optimizer), Limit: int64(p.Limit), Running: int64(p.Running), Queued: int64(p.Queued),
			Throughput: p.Throughput, Mean: formatDuration(time.Duration(p.Mean)), P99: formatDuration(time.Duration(p.P99)),
			Raised: p.Raised, Lowered: p.Lowered, Decisions: make([]*txmgrv1.PoolDecision, len(p.Decisions)),
		}
		for i, d := range p.Decisions {
			m.Pools[n].Decisions[i] = fromPoolDecision(d)
		}
	}
	return m
}

// ToPools reads the message for the concurrency limits of participants.
func ToPools(m *txmgrv1.PoolsResponse) ([]admin.Pool, error) {
	var r fieldReader
	ps := make([]admin.Pool, len(m.GetPools()))
	for n, p := range m.GetPools() {
		ps[n] = admin.Pool{
			Participant: p.GetParticipant(), Optimizer: p.GetOptimizer(), Limit: int(p.GetLimit()), Running: int(p.GetRunning()), Queued: int(p.GetQueued()),
			Throughput: p.GetThroughput(), Mean: r.duration("pools.mean", p.GetMean()), P99: r.duration("pools.p99", p.GetP99()),
			Raised: p.GetRaised(), Lowered: p.GetLowered(), Decisions: make([]admin.PoolDecision, len(p.GetDecisions())),
		}
		for i, d := range p.GetDecisions() {
			ps[n].Decisions[i] = r.poolDecision(d)
		}
	}
	return ps, r.decodeError("pools")
}

func fromPoolDecision(d admin.PoolDecision) *txmgrv1.PoolDecision {
	return &txmgrv1.PoolDecision{
		At: formatTime(d.At), From: int64(d.From), To: int64(d.To), Why: Text(d.Why), Rate: d.Rate, Busy: d.Busy, Bound: d.Bound,
		Mean: formatDuration(time.Duration(d.Mean)), P99: formatDuration(time.Duration(d.P99)), Queued: int64(d.Queued),
	}
}

func (r *fieldReader) poolDecision(m *txmgrv1.PoolDecision) admin.PoolDecision {
	return admin.PoolDecision{
		At: r.time("decision.at", m.GetAt()), From: int(m.GetFrom()), To: int(m.GetTo()), Why: m.GetWhy(),
		Rate: m.GetRate(), Busy: m.GetBusy(), Bound: m.GetBound(),
		Mean: r.duration("decision.mean", m.GetMean()), P99: r.duration("decision.p99", m.GetP99()), Queued: int(m.GetQueued()),
	}
}
