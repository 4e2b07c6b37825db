package timeoutbench

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/timeout"
)

// TestMeasure measures all contenders, and checks for impossible figures.
func TestMeasure(t *testing.T) {
	for _, c := range Contenders() {
		for _, l := range Loads() {
			task := Task{c.Name, 200, l.Name}
			t.Run(task.String(), func(t *testing.T) {
				found, err := Measure(Contenders(), task)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range Metrics() {
					v, ok := found[m.Name]
					ticking := slices.Contains([]string{Expire, LongestTick, LongestStep, IdleTick}, m.Name)
					if want := !ticking || c.Name != "purgatory"; ok != want {
						t.Errorf("%s: measured is %v, want %v", m.Name, ok, want)
					}
					if v < 0 && m.Name != Bytes && m.Name != BytesChurned {
						t.Errorf("%s is %v", m.Name, v)
					}
				}
				for _, name := range []string{Add, Cancel, Churn(8, true)} {
					if found[name] == 0 {
						t.Errorf("%s took no time", name)
					}
				}
				for name := range found {
					if !slices.ContainsFunc(Metrics(), func(m Metric) bool { return m.Name == name }) {
						t.Errorf("%s is no metric", name)
					}
				}
			})
		}
	}
}

func TestMeasureRefuses(t *testing.T) {
	for want, task := range map[string]Task{
		"no contender":              {"sundial", 200, "same"},
		"no load":                   {"heap", 200, "never"},
		"99 pending entries: want":  {"heap", MinSize - 1, "same"},
		"10000001 pending entries:": {"heap", MaxSize + 1, "same"},
	} {
		if _, err := Measure(Contenders(), task); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want an error with %q", task, err, want)
		}
	}
}

// lossy cancels one entry in seven without being asked, or keeps it for ever.
type lossy struct {
	Timers[uint64]
	forgets, keeps bool
}

func (c lossy) Cancel(ids, handles []uint64) int {
	n := c.Timers.Cancel(ids, handles)
	if c.forgets {
		n -= len(ids) / 7
	}
	return n
}

func (c lossy) Step(to timeout.Tick, buf []uint64) int {
	n := c.Timers.(Stepper).Step(to, buf)
	if c.keeps && n > 0 {
		n--
	}
	return n
}

// TestMeasureFindsFaults gives it contenders that lose entries.
func TestMeasureFindsFaults(t *testing.T) {
	for _, broken := range []lossy{{forgets: true}, {keeps: true}} {
		c := New("broken", func(shared bool) Timers[uint64] {
			broken.Timers = &null{optionalMutex: newOptionalMutex(shared)}
			return broken
		})
		if _, err := Measure([]Contender{c}, Task{"broken", 200, "same"}); err == nil || !strings.Contains(err.Error(), "fault of the contender") {
			t.Errorf("%+v: %v", broken, err)
		}
	}
}

// TestStep compares the entries that end at every tick with the expected ones.
func TestStep(t *testing.T) {
	t.Run("survival", func(t *testing.T) { step(t, NewSurvival(true)) })
	t.Run("heap", func(t *testing.T) { step(t, NewHeap(true)) })
	t.Run("wheel", func(t *testing.T) { step(t, NewWheel(true)) })
	t.Run("hashbelt", func(t *testing.T) { step(t, NewBelt(true)) })
	t.Run("copy-scan", func(t *testing.T) { step(t, newCopyScan(true)) })
	t.Run("old-purgatory", func(t *testing.T) { step(t, newOldPurgatory(true)) })
}

// TestOldPurgatoryPurges: completed requests stay in the queue until a purge removes them; expired
// ones stay in their list.
func TestOldPurgatoryPurges(t *testing.T) {
	c := newOldPurgatory(true).(*oldPurgatory)
	const expired, completed, pending = 50, purgeAfter - 50, 300
	ids := make([]uint64, expired+completed+pending)
	ends, handles := make([]timeout.Tick, len(ids)), make([]*delayed, len(ids))
	for n := range ids {
		ids[n], ends[n] = uint64(n+1), timeout.Tick(n/expired+1)
	}
	c.Add(ids, ends, handles)
	if n := c.Step(1, make([]uint64, batch)); n != expired {
		t.Fatalf("%d of %d ended", n, expired)
	}
	all := expired + completed
	if n := c.Cancel(ids[expired:all-1], handles[expired:all-1]); n != completed-1 {
		t.Fatalf("%d of %d completed", n, completed-1)
	}
	if len(c.queue) != completed+pending || len(c.watchers) != expired+1+pending {
		t.Errorf("before the purge %d are in the queue and %d watched, want %d and %d", len(c.queue), len(c.watchers), completed+pending, expired+1+pending)
	}
	c.Cancel(ids[all-1:all], handles[all-1:all])
	if len(c.queue) != pending || len(c.watchers) != pending {
		t.Errorf("after the purge %d are in the queue and %d watched, want the %d that wait", len(c.queue), len(c.watchers), pending)
	}
	if n := c.Step(Horizon, make([]uint64, batch)); n != pending {
		t.Errorf("%d of %d ended after the purge", n, pending)
	}
}

func step[H any](t *testing.T, timers Timers[H]) {
	r := rand.New(rand.NewPCG(1, 2))
	const entries = 500
	every := timeout.Tick(1) // an entry ends with the first multiple of it that is not before its end
	if l, ok := timers.(Late); ok {
		every += l.Late()
	}
	ids, ends, handles := make([]uint64, entries), make([]timeout.Tick, entries), make([]H, entries)
	want := make(map[timeout.Tick][]uint64)
	for n := range ids {
		ids[n], ends[n] = uint64(n+1), 1+timeout.Tick(r.Uint64N(60))
		if n%3 > 0 {
			at := (ends[n] + every - 1) / every * every
			want[at] = append(want[at], ids[n])
		}
	}
	timers.Add(ids, ends, handles)
	for n := 0; n < entries; n += 3 {
		if timers.Cancel(ids[n:n+1], handles[n:n+1]) != 1 || timers.Cancel(ids[n:n+1], handles[n:n+1]) != 0 {
			t.Fatalf("entry %d was not cancelled once", ids[n])
		}
	}
	buf := make([]uint64, 4)
	for to := range 62 + every {
		var got []uint64
		for n := len(buf); n == len(buf); {
			n = timers.(Stepper).Step(to, buf)
			got = append(got, buf[:n]...)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want[to], got); diff != "" {
			t.Fatalf("tick %d: (-want +got)\n%s", to, diff)
		}
	}
}
