package recovery

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
)

// endlessLog is a log in which transaction n has one branch, at participant n modulo so many,
// until it is rolled back there.
type endlessLog struct {
	Log
	of   int
	over func(txn.ID) bool
	end  func(txn.ID)
}

func (m *endlessLog) Pending(id txn.ID) (plan.PendingTx, bool) {
	if m.over(id) {
		return plan.PendingTx{}, false
	}
	name := fmt.Sprintf("p%d", numberOf(id)%m.of)
	return plan.PendingTx{ID: id, State: txn.RollingBack, Branches: []plan.Branch{{Participant: name, Branch: participant.Branch{TX: id, ID: 1}}}}, true
}

func (m *endlessLog) Participant(context.Context, string) (participant.Participant, error) {
	return instantParticipant{}, nil
}

func (m *endlessLog) Report(_ context.Context, id txn.ID, _ []plan.BranchResult) error {
	m.end(id)
	return nil
}

// instantParticipant is a participant that takes no time.
type instantParticipant struct{ participant.Participant }

func (instantParticipant) Rollback(context.Context, participant.Branch) (participant.Result, error) {
	return participant.Result{Outcome: participant.RolledBack}, nil
}

// BenchmarkParticipants measures the cost of a thousand participants that each had a branch
// to be ended a moment ago, and of the same after they have been idle for a while.
func BenchmarkParticipants(b *testing.B) {
	const n = 1000
	for b.Loop() {
		log := &quick{open: make(map[txn.ID]bool), slots: make(chan struct{}, n)}
		for k := range n {
			log.set(idOf(k+1), true)
			log.slots <- struct{}{}
		}
		before, goroutines := heapInUse(), runtime.NumGoroutine()
		r := begin(b, Config{}, &endlessLog{
			of:   n,
			over: func(id txn.ID) bool { _, open := log.Pending(id); return !open },
			end:  func(id txn.ID) { _ = log.Report(context.Background(), id, nil) },
		})
		for k := range n {
			r.Add(idOf(k + 1))
		}
		drained(b, r)
		b.ReportMetric(float64(heapInUse()-before)/n, "B/busy")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/n, "goroutines/busy")
		restAll(b, r)
		b.ReportMetric(float64(heapInUse()-before)/n, "B/rest")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/n, "goroutines/rest")
		r.Stop()
	}
}
