package runner_test

import (
	"fmt"
	"time"

	"github.com/txmgr/txmgr/timeout/wheel"
	"github.com/txmgr/txmgr/timeout/wheel/runner"
)

// An attempt that fails is repeated after a while that doubles.
func Example() {
	type attempt struct {
		number int
		after  time.Duration
	}
	var r *runner.Runner[attempt]
	r, err := runner.Start(runner.Config[attempt]{
		Tick: time.Millisecond,
		Handle: func(t *wheel.Task[attempt]) {
			fmt.Println("attempt", t.Value.number)
			if t.Value.number == 3 {
				r.Stop()
				return
			}
			t.Value.number++
			t.Value.after *= 2
			r.Add(t, t.Value.after)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r.Add(&wheel.Task[attempt]{Value: attempt{1, time.Millisecond}}, 0)
	<-r.Done()
	// Output:
	// attempt 1
	// attempt 2
	// attempt 3
}
