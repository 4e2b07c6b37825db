package recovery

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
)

// finished is a log in which everything is finished by the time it is read.
type finished struct{ Log }

func (finished) Pending(txn.ID) (plan.PendingTx, bool) { return plan.PendingTx{}, false }

// drained waits until nothing is left to be looked at.
func drained(b *testing.B, r *Recovery) {
	eventually(b, "drained", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.pending.deferred.Len() == 0 && r.pending.inbox.Len() == 0 && len(r.pending.transactions) == 0
	})
}

// BenchmarkHandoff is the path of every ordinary commit: put into the grace queue,
// and found to be done when it comes out. The time of both is counted.
func BenchmarkHandoff(b *testing.B) {
	r := begin(b, Config{ClientGrace: time.Millisecond}, finished{})
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		r.DeferToClient(idOf(n))
	}
	drained(b, r)
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "tx/s")
}

// BenchmarkHandoffParallel is the same from many goroutines.
func BenchmarkHandoffParallel(b *testing.B) {
	r := begin(b, Config{ClientGrace: time.Millisecond}, finished{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for n := 1; pb.Next(); n++ {
			r.DeferToClient(idOf(n))
		}
	})
	drained(b, r)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tx/s")
}

// BenchmarkAdd is the path of a hint about a transaction without pending work.
func BenchmarkAdd(b *testing.B) {
	r := begin(b, Config{}, finished{})
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		r.Add(idOf(n))
	}
	drained(b, r)
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "tx/s")
}

// BenchmarkGraceMemory measures what an id costs while it waits for its grace.
func BenchmarkGraceMemory(b *testing.B) {
	const n = 1_000_000
	for b.Loop() {
		before := heapInUse()
		r := begin(b, Config{ClientGrace: time.Hour}, finished{})
		for k := range n {
			r.DeferToClient(idOf(k))
		}
		b.ReportMetric(float64(heapInUse()-before)/n, "B/id")
		r.Stop()
	}
}

// quick is a log and a participant that take no time, with one branch for each transaction.
type quick struct {
	participant.Participant
	mu    sync.Mutex
	open  map[txn.ID]bool
	slots chan struct{}
}

func (q *quick) Pending(id txn.ID) (plan.PendingTx, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.open[id] {
		return plan.PendingTx{}, false
	}
	return plan.PendingTx{ID: id, State: txn.Committing, Branches: []plan.Branch{{Participant: "p", Branch: participant.Branch{TX: id, ID: 1}}}}, true
}

func (q *quick) set(id txn.ID, open bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if open {
		q.open[id] = true
		return
	}
	delete(q.open, id)
}

func (q *quick) Report(_ context.Context, id txn.ID, _ []plan.BranchResult) error {
	q.set(id, false)
	<-q.slots
	return nil
}

func (q *quick) Commit(context.Context, participant.Branch) (participant.Result, error) {
	return participant.Result{Outcome: participant.Committed}, nil
}

// quickLog is the log's side of quick.
type quickLog struct {
	Log
	*quick
}

func (q *quickLog) Pending(id txn.ID) (plan.PendingTx, bool) { return q.quick.Pending(id) }

func (q *quickLog) Report(ctx context.Context, id txn.ID, rs []plan.BranchResult) error {
	return q.quick.Report(ctx, id, rs)
}

func (q *quickLog) Participant(context.Context, string) (participant.Participant, error) {
	return q.quick, nil
}

// BenchmarkDrive is the dispatcher's own cost for one branch: planned, called,
// reported; participant and log take no time.
func BenchmarkDrive(b *testing.B) {
	log := &quickLog{quick: &quick{open: make(map[txn.ID]bool), slots: make(chan struct{}, 1024)}}
	r := begin(b, Config{}, log)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		log.slots <- struct{}{}
		log.set(idOf(n), true)
		r.Add(idOf(n))
	}
	drained(b, r)
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "branches/s")
}
