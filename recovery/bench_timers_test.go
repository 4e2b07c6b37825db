package recovery

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/txmgr/txmgr/recovery/breaker"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
)

// waiters is how many branches wait for their next try in these benchmarks.
const waiters = 100_000

// parkCrowd makes many branches back off, as if an attempt at each had failed, for up to a
// ceiling; mu is held.
func parkCrowd(r *Recovery, l *lane, ceiling time.Duration) {
	r.backoffs.branches.Base, r.backoffs.branches.Max = ceiling, ceiling
	for n := range waiters {
		it := item{plan.Key{TX: idOf(n + 1), Branch: 1}, plan.Commit}
		r.pending.transactions[it.TX] = txProgress{outstanding: 1, state: txn.Committing}
		t := &branchAttempts{lane: l}
		r.attempts[it] = t
		r.backOffLocked(it, t, r.now()+r.backoffs.branches.FullJitter(1))
	}
}

// openLane makes a participant that must not be called for an hour; mu is held.
func openLane(r *Recovery) *lane {
	l := r.laneLocked("down")
	l.health.br = breaker.Breaker{Threshold: 1, Backoff: breaker.Backoff{Base: time.Hour, Max: time.Hour, Rand: func() float64 { return 1 }}}
	l.health.br.Failure(r.now(), false)
	return l
}

// BenchmarkWaitMemory measures the cost of a branch that backs off,
// with all that recovery keeps of it.
func BenchmarkWaitMemory(b *testing.B) {
	for b.Loop() {
		before := heapInUse()
		r := begin(b, Config{}, finished{})
		r.mu.Lock()
		parkCrowd(r, openLane(r), time.Hour)
		r.mu.Unlock()
		b.ReportMetric(float64(heapInUse()-before)/waiters, "B/branch")
		r.Stop()
		runtime.KeepAlive(r)
	}
}

// BenchmarkWaitRetry has one of many waiting branches tried at once, as an operator
// does, and wait again. The garbage is counted.
func BenchmarkWaitRetry(b *testing.B) {
	r := begin(b, Config{}, finished{})
	r.mu.Lock()
	defer r.mu.Unlock()
	l := openLane(r)
	parkCrowd(r, l, time.Hour)
	before, n := heapInUse(), 0
	b.ReportAllocs()
	for b.Loop() {
		it := item{plan.Key{TX: idOf(n*7919%waiters + 1), Branch: 1}, plan.Commit}
		n++
		t := r.attempts[it]
		r.endBackoffLocked(it, t, r.now())
		l.waiting.queues[queueOf(it.action)].Pop()
		r.backOffLocked(it, t, r.now()+r.backoffs.branches.FullJitter(1))
	}
	b.ReportMetric(max(0, float64(heapInUse())-float64(before))/float64(n), "left-B/op")
}

// BenchmarkWaitWave fires the timers of all branches, spread over a few seconds, at
// a participant that is down, and counts how often the loop wakes up for it and
// how much processor time that takes.
func BenchmarkWaitWave(b *testing.B) {
	for _, over := range []time.Duration{time.Second, 5 * time.Second} {
		b.Run(fmt.Sprintf("over=%v", over), func(b *testing.B) {
			for b.Loop() {
				r := begin(b, Config{}, finished{})
				r.mu.Lock()
				l := openLane(r)
				parkCrowd(r, l, over)
				woken, cpu := r.wakeups.iterations, processorTime(b)
				r.mu.Unlock()
				sleep(b.Context(), over)
				eventually(b, "all in the lane", func() bool {
					r.mu.Lock()
					defer r.mu.Unlock()
					return l.backingOff == 0
				})
				r.mu.Lock()
				b.ReportMetric(float64(r.wakeups.iterations-woken), "wake-ups")
				r.mu.Unlock()
				b.ReportMetric(float64(processorTime(b)-cpu)/1e6, "cpu-ms")
				r.Stop()
			}
		})
	}
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
