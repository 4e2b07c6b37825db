package recovery

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// many is a log in which transaction n has one branch, at participant n modulo so many,
// until it is rolled back there.
type many struct {
	Log
	of   int
	over func(txn.ID) bool
	end  func(txn.ID)
}

func (m *many) Undone(id txn.ID) (Work, bool) {
	if m.over(id) {
		return Work{}, false
	}
	name := fmt.Sprintf("p%d", numberOf(id)%m.of)
	return Work{ID: id, State: txn.RollingBack, Branches: []Branch{{name, participant.Branch{TX: id, ID: 1}}}}, true
}

func (m *many) Participant(context.Context, string) (participant.Participant, error) {
	return prompt{}, nil
}

func (m *many) Report(_ context.Context, id txn.ID, _ []Report) error {
	m.end(id)
	return nil
}

// prompt is a participant that takes no time.
type prompt struct{ participant.Participant }

func (prompt) Rollback(context.Context, participant.Branch) (participant.Result, error) {
	return participant.Result{Ending: participant.RolledBack}, nil
}

// BenchmarkParticipants measures what a thousand participants cost that each had a branch
// to be ended a moment ago, and what when they have been at rest for a while.
func BenchmarkParticipants(b *testing.B) {
	const n = 1000
	for b.Loop() {
		log := &quick{open: make(map[txn.ID]bool), slots: make(chan struct{}, n)}
		for k := range n {
			log.set(idOf(k+1), true)
			log.slots <- struct{}{}
		}
		before, goroutines := heapInUse(), runtime.NumGoroutine()
		r := begin(b, Config{}, &many{
			of:   n,
			over: func(id txn.ID) bool { _, open := log.Undone(id); return !open },
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
