package runner

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/txmgr/txmgr/timeout/wheel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tick = 10 * time.Millisecond

// start starts a runner that is stopped at the end of the test.
func start(t *testing.T, c Config[time.Duration]) *Runner[time.Duration] {
	t.Helper()
	if c.Tick == 0 {
		c.Tick = tick
	}
	r, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Stop()
		<-r.Done()
	})
	return r
}

// log records when tasks were passed on. Value is their due time.
type log struct {
	mu    sync.Mutex
	since time.Time
	tasks []*wheel.Task[time.Duration] // guarded by mu
	late  []time.Duration              // guarded by mu
}

func (l *log) handle(task *wheel.Task[time.Duration]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tasks = append(l.tasks, task)
	l.late = append(l.late, time.Since(l.since)-task.Value)
}

func (l *log) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.tasks)
}

// wait waits in the time of the synctest bubble.
func wait(d time.Duration) { <-time.After(d) }

// A sparse wheel wakes up for due tasks only, however far away their ends are.
func TestAwakenings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{since: time.Now()}
		r := start(t, Config[time.Duration]{Handle: l.handle})
		synctest.Wait()
		times := []time.Duration{
			5 * time.Millisecond, time.Second, time.Second, time.Minute, time.Hour, 25 * time.Hour, 400 * 24 * time.Hour,
		}
		tasks := make([]wheel.Task[time.Duration], len(times))
		for i, after := range times {
			tasks[i].Value = after
			r.Add(&tasks[i], after)
		}
		wait(10 * 365 * 24 * time.Hour)
		synctest.Wait()
		if l.len() != len(times) || r.Len() != 0 {
			t.Fatalf("%d tasks of %d were handed over, %d are left", l.len(), len(times), r.Len())
		}
		for i, late := range l.late {
			if l.tasks[i] != &tasks[i] || late < 0 || late >= tick {
				t.Errorf("the task of %v came in place of that of %v, %v late", l.tasks[i].Value, times[i], late)
			}
		}
		// One for the first task, which is earlier than none; then one for each tick at which something is due.
		if got := r.Wakeups(); got != 7 {
			t.Errorf("woke up %d times in ten years, want 7", got)
		}
	})
}

// Many tasks after an idle time do not make the goroutine wake up more often than they end.
func TestIdleThenBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tasks, ends = 3000, 50
		l := &log{since: time.Now()}
		r := start(t, Config[time.Duration]{Handle: l.handle})
		wait(1000 * time.Hour)
		for i := range tasks {
			r.Add(&wheel.Task[time.Duration]{}, time.Duration(1+i%ends)*tick)
		}
		wait(time.Hour)
		synctest.Wait()
		if got := r.Wakeups(); l.len() != tasks || got != 1+ends {
			t.Errorf("%d tasks of %d, %d awakenings for %d ends", l.len(), tasks, got, ends)
		}
	})
}

// Of many tasks, half of which are cancelled, none comes early, none a tick late, none twice, and
// the cancelled ones do not come.
func TestManyTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 20_000
		rnd := rand.New(rand.NewPCG(1, 2))
		l := &log{since: time.Now()}
		r := start(t, Config[time.Duration]{Handle: l.handle})
		ends := make(map[time.Duration]bool)
		gone := make(map[*wheel.Task[time.Duration]]bool)
		for i := range n {
			task := &wheel.Task[time.Duration]{Value: time.Duration(rnd.Int64N(int64(time.Hour)))}
			if !r.Add(task, task.Value) {
				t.Fatal("Add refused a task")
			}
			ends[(task.Value+tick-1)/tick] = true
			if i%2 == 0 {
				gone[task] = r.Cancel(task)
			}
		}
		wait(2 * time.Hour)
		synctest.Wait()
		if l.len() != n/2 || len(gone) != n/2 {
			t.Fatalf("%d tasks of %d were handed over, %d cancelled", l.len(), n/2, len(gone))
		}
		for i, task := range l.tasks {
			if gone[task] || l.late[i] < 0 || l.late[i] >= tick {
				t.Fatalf("the task of %v came %v late; cancelled: %v", task.Value, l.late[i], gone[task])
			}
		}
		// One for a first task, and twice the steps of 256 in which a task comes down a level at most.
		if got, most := r.Wakeups(), uint64(len(ends)+1+2*3*n/256); got > most {
			t.Errorf("woke up %d times for %d ends, at most %d are right", got, len(ends), most)
		}
	})
}

// A task that is due earlier than the one for which the goroutine sleeps wakes it.
func TestEarlierTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{since: time.Now()}
		r := start(t, Config[time.Duration]{Handle: l.handle})
		for _, after := range []time.Duration{time.Hour, time.Minute, time.Second, 0, -time.Second, math.MinInt64} {
			synctest.Wait()
			r.Add(&wheel.Task[time.Duration]{Value: max(after, 0)}, after)
		}
		synctest.Wait()
		if l.len() != 3 {
			t.Errorf("%d tasks are due at once, want 3", l.len())
		}
		wait(time.Hour + tick)
		synctest.Wait()
		for i, late := range l.late {
			if late < 0 || late >= tick {
				t.Errorf("task %d of %v came %v late", i, l.tasks[i].Value, late)
			}
		}
		if l.len() != 6 {
			t.Errorf("%d tasks were handed over, want 6", l.len())
		}
	})
}

// After a time that does not fit the clock a task is never due, and can be cancelled.
func TestLongestTime(t *testing.T) {
	for _, unit := range []time.Duration{1, tick, math.MaxInt64} {
		synctest.Test(t, func(t *testing.T) {
			l := &log{since: time.Now()}
			r := start(t, Config[time.Duration]{Tick: unit, Handle: l.handle})
			wait(time.Hour)
			var far wheel.Task[time.Duration]
			r.Add(&far, math.MaxInt64)
			wait(100 * 365 * 24 * time.Hour)
			synctest.Wait()
			if l.len() != 0 || r.Wakeups() > 1 {
				t.Errorf("unit %v: %d tasks, %d awakenings", unit, l.len(), r.Wakeups())
			}
			if !r.Cancel(&far) || r.Cancel(&far) || r.Len() != 0 {
				t.Errorf("unit %v: the task could not be cancelled once", unit)
			}
		})
	}
}

// While the function blocks, others are late, and Add, Cancel, Len and Stop are not.
func TestHandleBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := &log{since: time.Now()}
		r := start(t, Config[time.Duration]{Handle: func(task *wheel.Task[time.Duration]) {
			if task.Value == 0 {
				<-release
			}
			l.handle(task)
		}})
		tasks := []wheel.Task[time.Duration]{{Value: 0}, {Value: time.Second}, {Value: 2 * time.Second}}
		for i := range tasks {
			r.Add(&tasks[i], tasks[i].Value)
		}
		wait(time.Minute)
		synctest.Wait()
		if l.len() != 0 || r.Len() != 2 {
			t.Fatalf("%d tasks were handed over, %d wait", l.len(), r.Len())
		}
		if r.Cancel(&tasks[0]) {
			t.Error("cancelled a task that is being handed over")
		}
		if !r.Cancel(&tasks[1]) {
			t.Error("could not cancel a task that is late")
		}
		close(release)
		synctest.Wait()
		if l.len() != 2 || l.tasks[1] != &tasks[2] {
			t.Errorf("%d tasks were handed over, want the first and the third", l.len())
		}
	})
}

// After a panic the next task is passed on.
func TestHandlePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{since: time.Now()}
		var panics []string
		r := start(t, Config[time.Duration]{
			Handle: func(task *wheel.Task[time.Duration]) {
				if task.Value == time.Second {
					panic("out of hand")
				}
				l.handle(task)
			},
			Panicked: func(task *wheel.Task[time.Duration], value any, stack []byte) {
				panics = append(panics, fmt.Sprint(task.Value, ": ", value))
				if !strings.Contains(string(stack), "TestHandlePanics") {
					t.Errorf("the stack does not say where:\n%s", stack)
				}
			},
		})
		for _, after := range []time.Duration{time.Second, time.Second, 2 * time.Second} {
			r.Add(&wheel.Task[time.Duration]{Value: after}, after)
		}
		wait(time.Minute)
		synctest.Wait()
		if got, want := fmt.Sprint(panics), "[1s: out of hand 1s: out of hand]"; got != want {
			t.Errorf("panics: %v, want %v", got, want)
		}
		if l.len() != 1 || l.tasks[0].Value != 2*time.Second {
			t.Errorf("%d tasks followed, want one", l.len())
		}
	})
}

// Without Panicked a panic is not hidden: it ends the program, which is this test, started once more.
func TestPanicEndsTheProgram(t *testing.T) {
	const victim = "RUNNER_TEST_PANIC"
	if os.Getenv(victim) != "" {
		r := start(t, Config[time.Duration]{Handle: func(*wheel.Task[time.Duration]) { panic("nobody listens") }})
		r.Add(&wheel.Task[time.Duration]{}, 0)
		<-r.Done()
		return
	}
	c := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	c.Env = append(os.Environ(), victim+"=1")
	out, err := c.CombinedOutput()
	if exit := (&exec.ExitError{}); !errors.As(err, &exit) || !strings.Contains(string(out), "panic: nobody listens\n") {
		t.Errorf("the program ended with %v:\n%s", err, out)
	}
}

// A function that ends its goroutine ends the runner.
func TestGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config[time.Duration]{
			Handle:   func(*wheel.Task[time.Duration]) { runtime.Goexit() },
			Panicked: func(*wheel.Task[time.Duration], any, []byte) { t.Error("taken for a panic") },
		})
		var a, b wheel.Task[time.Duration]
		r.Add(&a, 0)
		<-r.Done()
		if r.Add(&b, 0) {
			t.Error("Add to a runner whose goroutine is gone")
		}
	})
}

// A task that is added again by the function comes again and again, and delays no other.
func TestHandleAddsAgain(t *testing.T) {
	for _, after := range []time.Duration{time.Second, 1, 0} {
		synctest.Test(t, func(t *testing.T) {
			var r *Runner[time.Duration]
			var rounds, others int
			var again wheel.Task[time.Duration]
			r = start(t, Config[time.Duration]{Handle: func(task *wheel.Task[time.Duration]) {
				if task != &again {
					others++
					return
				}
				rounds++
				if rounds == 1000 {
					r.Stop()
				}
				if added := r.Add(task, after); added != (rounds < 1000) {
					t.Errorf("Add = %v in round %d", added, rounds)
				}
			}})
			r.Add(&again, after)
			for range 3 {
				r.Add(&wheel.Task[time.Duration]{}, after)
			}
			<-r.Done()
			if rounds != 1000 || others != 3 {
				t.Errorf("%d rounds, %d other tasks; want 1000 and 3", rounds, others)
			}
		})
	}
}

func TestStartRefuses(t *testing.T) {
	if _, err := Start(Config[int]{}); !errors.Is(err, ErrHandle) {
		t.Errorf("Start without a function: %v", err)
	}
	if _, err := Start(Config[int]{Handle: func(*wheel.Task[int]) {}, Tick: -1}); !errors.Is(err, ErrTick) {
		t.Errorf("Start with a negative tick: %v", err)
	}
}

func TestBadTasks(t *testing.T) {
	r := start(t, Config[time.Duration]{Handle: func(*wheel.Task[time.Duration]) {}})
	other := start(t, Config[time.Duration]{Handle: func(*wheel.Task[time.Duration]) {}})
	var task wheel.Task[time.Duration]
	if r.Add(nil, 0) || r.Cancel(nil) || r.Cancel(&task) {
		t.Error("accepted what is no task")
	}
	r.Add(&task, time.Hour)
	if r.Add(&task, time.Minute) || other.Add(&task, time.Minute) || other.Cancel(&task) {
		t.Error("accepted a task that waits already")
	}
	if !r.Cancel(&task) {
		t.Error("the task was lost")
	}
}

// TestConcurrent has goroutines add and cancel against the clock. A task is passed on or cancelled,
// once, or left.
func TestConcurrent(t *testing.T) {
	const goroutines, tasks = 8, 3000
	var handed [goroutines * tasks]atomic.Int32
	r, err := Start(Config[int]{Tick: 50 * time.Microsecond, Handle: func(task *wheel.Task[int]) { handed[task.Value].Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	var cancelled, far [goroutines * tasks]bool
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(g)))
			mine := make([]wheel.Task[int], tasks)
			cancel := func(task *wheel.Task[int]) {
				if r.Cancel(task) {
					cancelled[task.Value] = true
				}
			}
			for i := range mine {
				mine[i].Value = g*tasks + i
				after := time.Duration(rnd.Int64N(int64(time.Millisecond)))
				if rnd.IntN(4) == 0 {
					after = time.Hour
					far[mine[i].Value] = true
				}
				r.Add(&mine[i], after)
				cancel(&mine[rnd.IntN(i+1)])
			}
			for i := range mine {
				if rnd.IntN(4) == 0 {
					cancel(&mine[i])
				}
			}
		})
	}
	all.Wait()
	stay := 0
	for i := range far {
		if far[i] && !cancelled[i] {
			stay++
		}
	}
	for deadline := time.Now().Add(time.Minute); r.Len() > stay; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d tasks wait, of which %d are far", r.Len(), stay)
		}
	}
	left := make(map[int]bool)
	r.Drain(func(task *wheel.Task[int]) { left[task.Value] = true })
	<-r.Done()
	var sum [3]int
	for i := range handed {
		n := int(handed[i].Load())
		for k, is := range []bool{n == 1, cancelled[i], left[i]} {
			if is {
				sum[k]++
			}
		}
		if one := n == 1 != cancelled[i] != left[i]; !one || n > 1 || left[i] && !far[i] {
			t.Fatalf("task %d: handed over %d times, cancelled %v, left %v", i, n, cancelled[i], left[i])
		}
	}
	if sum[0] < 1000 || sum[1] < 1000 || sum[2] != stay {
		t.Errorf("%d tasks handed over, %d cancelled, %d left of %d", sum[0], sum[1], sum[2], stay)
	}
}
