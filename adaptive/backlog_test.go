package adaptive

import (
	"strings"
	"testing"
	"time"
)

// TestBacklog: of tasks that came all at once each window completes older ones than the last,
// whatever the limit is. The rate still shows which limit does more of the queue,
// and a limit that does not is not kept: 32 can run at once, each more makes all slower.
// The published algorithm looks at ages alone, and stays where it began.
func TestBacklog(t *testing.T) {
	for _, algorithm := range []string{"M", "99P"} {
		for _, strict := range []bool{false, true} {
			p := &simService{users: 1 << 20, slots: 32, took: 20 * time.Millisecond, loss: 0.02}
			o := makeCosta(t, algorithm, CostaConfig{Strict: strict, Period: 500 * time.Millisecond, Max: 256})
			limit, least, most := 16, 16, 16
			for range 60 {
				w := p.window(limit)
				w.Sojourn = new(Histogram)
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

// TestNoBacklog: where tasks wait for less than a window, what they waited is what counts.
func TestNoBacklog(t *testing.T) {
	for _, algorithm := range []string{"M", "99P"} {
		took := []time.Duration{90, 90, 80, 100}
		o := makeCosta(t, algorithm, CostaConfig{})
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
