package adaptive

import (
	"math"
	"testing"
	"time"
)

// simService is a service without randomness, and its users, each of whom waits for an answer
// before asking again: a task takes its fixed time as long as no more than slots are served;
// beyond that tasks share, and each further one costs a part of the total.
type simService struct {
	users, slots int
	took         time.Duration
	loss         float64
	power        float64 // if not 0, this power of the limit completes, without end
	share        int     // at most 1/share of the limit can be used
	stands       bool
	every        time.Duration // the length of a window; 500 ms if 0
	cpu          float64

	now       time.Duration
	completed float64 // not yet shown in a window
}

// rate is the number of completions per second under a limit.
func (p *simService) rate(limit int) float64 {
	busy := float64(p.busy(limit))
	if p.power > 0 {
		return math.Pow(busy, p.power) / p.took.Seconds()
	}
	served := min(busy, float64(p.slots))
	return served / p.took.Seconds() * max(0.1, 1-p.loss*(busy-served))
}

func (p *simService) busy(limit int) int { return min(p.users, max(1, limit/max(1, p.share))) }

// window is a window under a limit.
func (p *simService) window(limit int) *Window {
	d := p.every
	if d == 0 {
		d = 500 * time.Millisecond
	}
	w := &Window{Start: p.now, End: p.now + d, Limit: limit, CPU: p.cpu}
	p.now = w.End
	busy := p.busy(limit)
	w.BusyTime, w.BusyMax = time.Duration(busy)*d, busy
	w.QueueLen, w.QueueMax = p.users-busy, p.users-busy
	w.QueueTime = time.Duration(w.QueueLen) * d
	if !p.stands {
		p.completed += p.rate(limit) * d.Seconds()
	}
	w.Completed = uint64(p.completed)
	p.completed -= float64(w.Completed)
	w.Arrived = w.Completed
	if w.QueueLen > 0 {
		w.BoundTime, w.BoundCompleted = d, w.Completed
	}
	w.Service, w.Sojourn = new(Histogram), new(Histogram)
	if w.Completed > 0 {
		service := float64(busy) / p.rate(limit)
		w.Service.RecordN(time.Duration(service*float64(time.Second)), uint32(w.Completed))
		w.Sojourn.RecordN(time.Duration(float64(p.users)/p.rate(limit)*float64(time.Second)), uint32(w.Completed))
	}
	return w
}

// best is the highest rate under any limit.
func (p *simService) best() (best float64) {
	for l := 1; l <= DefaultMax; l++ {
		best = max(best, p.rate(l))
	}
	return best
}

// run lets an optimizer work for a while, and returns the last limit, how many
// windows it took until the limit yielded 90 % of the best rate, and how often it
// was changed.
func (p *simService) run(t *testing.T, o Optimizer, limit int, long time.Duration) (end, reached, resizes int) {
	t.Helper()
	best := p.best()
	reached = -1
	for i := range int(long / (500 * time.Millisecond)) {
		if p.rate(limit) >= 0.9*best && reached < 0 {
			reached = i
		}
		d := o.Observe(p.window(limit))
		if d.Limit != limit {
			resizes++
			if d.Why == "" {
				t.Fatalf("from %d to %d without a reason", limit, d.Limit)
			}
			t.Logf("%6v %4d -> %4d: %s", p.now, limit, d.Limit, d.Why)
		}
		limit = d.Limit
	}
	return limit, reached, resizes
}

func kneeOf(t *testing.T, cfg Knee) *knee {
	t.Helper()
	o, err := NewKnee(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return o.(*knee)
}
