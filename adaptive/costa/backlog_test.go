package costa

import (
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/adaptive"
)

// TestBacklog: of tasks that came all at once each window completes older ones than the last,
// whatever the limit is. The rate still shows which limit does more of the queue,
// and a limit that does not is not kept: 32 can run at once, each more makes all slower.
// The published algorithm looks at ages alone, and stays where it began.
func TestBacklog(t *testing.T) {
	for _, algorithm := range []string{"M", "99P"} {
		for _, strict := range []bool{false, true} {
			var now time.Duration
			o := newOptimizer(t, algorithm, Config{Strict: strict, Period: 500 * time.Millisecond, Max: 256})
			limit, least, most := 16, 16, 16
			for range 60 {
				w := backlogged(now, limit)
				now = w.End
				w.Sojourn.RecordN(w.End, uint32(w.Completed)) // all have waited from the beginning
				d := o.Observe(w)
				if d.Why != "" && !strict && w.End > time.Second && !strings.Contains(d.Why, "trying") && !strings.Contains(d.Why, "behind the backlog") {
					t.Errorf("%s at %v: %s", algorithm, w.End, d.Why)
				}
				limit = d.Limit
				least, most = min(least, limit), max(most, limit)
			}
			switch {
			case strict && most > 26:
				t.Errorf("published %s has grown to %d by the ages of a backlog", algorithm, most)
			case !strict && (limit < 26 || limit > 46 || least < 16):
				t.Errorf("%s ends at %d, after %d to %d, where 32 is best", algorithm, limit, least, most)
			}
			t.Logf("%s, strict %v: %d, after %d to %d", algorithm, strict, limit, least, most)
		}
	}
}

// backlogged is a window of half a second of a service with far more tasks than it can serve: each
// takes 20 ms as long as 32 or less run, and each more makes all slower. Sojourn is empty.
func backlogged(start time.Duration, limit int) *adaptive.Window {
	const tasks, slots, length = 1 << 20, 32, 500 * time.Millisecond
	served := float64(min(limit, slots))
	rate := served / 0.020 * max(0.1, 1-0.02*(float64(limit)-served))
	w := &adaptive.Window{
		Start: start, End: start + length, Limit: limit,
		BusyTime: time.Duration(limit) * length, BusyMax: limit,
		QueueLen: tasks - limit, QueueMax: tasks - limit, QueueTime: time.Duration(tasks-limit) * length,
		Completed: uint64(rate * length.Seconds()),
		BoundTime: length, Service: new(adaptive.Histogram), Sojourn: new(adaptive.Histogram),
	}
	w.Arrived, w.BoundCompleted = w.Completed, w.Completed
	w.Service.RecordN(time.Duration(float64(limit)/rate*float64(time.Second)), uint32(w.Completed))
	return w
}

// TestNoBacklog: where tasks wait for less than a window, what they waited is what counts.
func TestNoBacklog(t *testing.T) {
	for _, algorithm := range []string{"M", "99P"} {
		took := []time.Duration{90, 90, 80, 100}
		o := newOptimizer(t, algorithm, Config{})
		var why []string
		limit := 11
		for i := range took {
			w := windowOf(limit, 100, took[i]*time.Millisecond)
			w.QueueTime = time.Duration(i) * time.Hour // had it counted, all would have become worse
			d := o.Observe(w)
			limit, why = d.Limit, append(why, d.Why)
		}
		if all := strings.Join(why, "\n"); !strings.Contains(all, "keeping 21") || strings.Contains(all, "backlog") {
			t.Errorf("%s: %s", algorithm, all)
		}
	}
}
