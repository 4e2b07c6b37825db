package recovery

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
)

// server is a participant with a capacity: so many calls are served at once, each for a
// time; with more of them all become slower in proportion, and by 2 % for each beyond.
type server struct {
	participant.Participant
	slots   int
	service time.Duration // zero: it hangs
	running atomic.Int64
	most    atomic.Int64
	left    atomic.Int64
	done    chan struct{}
}

func (s *server) Rollback(ctx context.Context, _ participant.Branch) (participant.Result, error) {
	n := s.running.Add(1)
	defer s.running.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); {
		most = s.most.Load()
	}
	if s.service == 0 {
		<-ctx.Done()
		return participant.Result{}, ctx.Err()
	}
	d := s.service
	if over := int(n) - s.slots; over > 0 {
		d = time.Duration(float64(d) * float64(n) / float64(s.slots) * (1 + 0.02*float64(over)))
	}
	if !sleep(ctx, d) {
		return participant.Result{}, ctx.Err()
	}
	if s.left.Add(-1) == 0 {
		close(s.done)
	}
	return participant.Result{Outcome: participant.RolledBack}, nil
}

// storm is a log in which n transactions have just expired that have a branch at each
// participant.
type storm struct {
	Log
	n     int
	names []string
	parts map[string]*server

	mu   sync.Mutex
	over []uint8 // bits of the branches that are finished, by transaction
}

// stormOf has two healthy participants, one that is ten times slower, and one
// that hangs.
func stormOf(n, slots int, service time.Duration) *storm {
	s := &storm{n: n, names: []string{"hung", "slow", "one", "two"}, parts: make(map[string]*server), over: make([]uint8, n+1)}
	for i, name := range s.names {
		p := &server{slots: slots, service: []time.Duration{0, 10 * service, service, service}[i], done: make(chan struct{})}
		p.left.Store(int64(n))
		s.parts[name] = p
	}
	return s
}

func numberOf(id txn.ID) int { return int(id[13])<<16 | int(id[14])<<8 | int(id[15]) }

func (s *storm) Pending(id txn.ID) (plan.PendingTx, bool) {
	s.mu.Lock()
	over := s.over[numberOf(id)]
	s.mu.Unlock()
	w := plan.PendingTx{ID: id, State: txn.RollingBack, Cause: txn.CauseTimeout}
	for i, name := range s.names {
		if over&(1<<i) == 0 {
			w.Branches = append(w.Branches, plan.Branch{Participant: name, Branch: participant.Branch{TX: id, ID: txn.BranchID(i + 1)}})
		}
	}
	return w, len(w.Branches) > 0
}

func (s *storm) Report(_ context.Context, id txn.ID, rs []plan.BranchResult) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rs {
		s.over[numberOf(id)] |= 1 << (r.Branch - 1)
	}
	return nil
}

func (s *storm) Participant(_ context.Context, name string) (participant.Participant, error) {
	return s.parts[name], nil
}

// burst begins it, and returns when both healthy participants had ended theirs, at
// most limit.
func (s *storm) burst(t testing.TB, cfg Config, limit time.Duration) (took time.Duration, r *Recovery) {
	r = begin(t, cfg, s)
	ids := make([]txn.ID, s.n)
	for k := range ids {
		ids[k] = idOf(k + 1)
	}
	begun := time.Now()
	r.Add(ids...)
	end := time.NewTimer(limit)
	defer end.Stop()
	for _, name := range []string{"one", "two"} {
		select {
		case <-s.parts[name].done:
		case <-end.C:
			return limit, r
		}
	}
	return time.Since(begun), r
}

// sizes are those of the fixed pools that the adaptive ones are compared with. Eight for
// each participant is what recovery had before, when there were four.
var sizes = []int{1, 2, 4, 8, 16, 32, 64, 128, 256}

// TestStorm: one of four participants hangs and one is ten times slower when transactions
// expire that have a branch at each. The healthy ones are done in 1.2 times the time
// that the best fixed pools would need, which cannot be known in advance, and neither of the
// others has more workers than its own pool. A fixed pool of half the best size needs
// twice as long. A storm of a few seconds is the hard one, since the search costs one.
func TestStorm(t *testing.T) {
	for _, storm := range []struct {
		n     int
		fixed []int
		times float64 // the best
	}{{10_000, sizes, 1.2}, {100_000, []int{16, 32, 64}, 1.05}} {
		t.Run(fmt.Sprint(storm.n), func(t *testing.T) { testStorm(t, storm.n, storm.fixed, storm.times) })
	}
}

func testStorm(t *testing.T, n int, sizes []int, times float64) {
	run := func(cfg Config) (took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			s := stormOf(n, 32, 20*time.Millisecond)
			var r *Recovery
			took, r = s.burst(t, cfg, time.Hour)
			if cfg.NewOptimizer != nil {
				return
			}
			if most := s.parts["hung"].most.Load(); most == 0 || most > int64(r.cfg.Start) {
				t.Errorf("the one that hangs had %d calls at once", most)
			}
			if h := r.Health("one"); h.Limit < 20 || h.Limit > 50 || len(r.Decisions("one")) == 0 {
				t.Errorf("a limit of %d, where 32 is best, by %d decisions", h.Limit, len(r.Decisions("one")))
			}
			if h := r.Health("hung"); h.Limit != r.cfg.Start || h.Raised+h.Lowered != 0 || h.Throughput != 0 {
				t.Errorf("the one that hangs has taught something: %+v", h)
			}
			for _, d := range r.Decisions("one") {
				t.Logf("%5.1fs  %3d to %3d: %s", d.At.Sub(r.life.epoch).Seconds(), d.From, d.To, d.Why)
			}
		})
		return took
	}
	best, of := time.Duration(1<<62), 0
	for _, size := range sizes {
		took := run(Config{NewOptimizer: fixed(size)})
		t.Logf("%3d fixed: %v", size, took)
		if took < best {
			best, of = took, size
		}
	}
	took := run(Config{})
	t.Logf("adaptive:  %v, %.2f times the best, %d fixed", took, float64(took)/float64(best), of)
	if float64(took) > times*float64(best) {
		t.Errorf("adaptive pools took %v, the best fixed ones %v", took, best)
	}
}

// BenchmarkStorm is TestStorm with 100,000 transactions, by the wall clock: ten
// times as many calls of a tenth of the time. A run of more than a minute is given up.
func BenchmarkStorm(b *testing.B) {
	run := func(cfg Config) func(*testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				s := stormOf(100_000, 32, 2*time.Millisecond)
				took, r := s.burst(b, cfg, time.Minute)
				h := r.Health("one")
				r.Stop()
				b.ReportMetric(took.Seconds(), "healthy-s")
				b.ReportMetric(float64(h.Limit), "limit")
				b.ReportMetric(100*float64(200_000-s.parts["one"].left.Load()-s.parts["two"].left.Load())/200_000, "done-%")
			}
		}
	}
	b.Run("adaptive", run(Config{}))
	for _, size := range sizes {
		b.Run(fmt.Sprintf("fixed=%d", size), run(Config{NewOptimizer: fixed(size)}))
	}
}
