package wheel_test

import (
	"fmt"

	"github.com/txmgr/txmgr/timeout"
	"github.com/txmgr/txmgr/timeout/wheel"
)

// A request waits in the wheel and embeds its task, so a request that ends before its time needs no
// lookup.
type request struct {
	name     string
	deadline wheel.Task[*request]
}

func Example() {
	const now, second = 1000, 10 // a tick is 100 ms here: the wheel does not know
	w := wheel.New[*request](now, wheel.DefaultSize)
	var requests []*request
	for i, name := range []string{"a", "b", "c", "d"} {
		r := &request{name: name}
		r.deadline.Value = r
		requests = append(requests, r)
		w.Add(&r.deadline, timeout.Tick(now+timeouts[i]*second))
	}

	fmt.Println("b is answered:", w.Cancel(&requests[1].deadline))
	for next, ok := w.Next(); ok; next, ok = w.Next() {
		fmt.Println("sleep until", next)
		w.Advance(next)
		for task := w.Pop(); task != nil; task = w.Pop() {
			fmt.Println("  out of time:", task.Value.name)
		}
	}
	// Output:
	// b is answered: true
	// sleep until 1000
	//   out of time: d
	// sleep until 1300
	//   out of time: a
	//   out of time: c
}

var timeouts = [...]uint64{30, 5, 30, 0}

// A task that waits is not added again, and one that is gone is not cancelled again.
func ExampleWheel_Add() {
	w := wheel.New[string](0, 0)
	var retry wheel.Task[string]
	fmt.Println(w.Add(&retry, 20), w.Add(&retry, 30), retry.End())
	fmt.Println(w.Cancel(&retry), w.Cancel(&retry))
	fmt.Println(w.Add(&retry, 30), retry.End())
	// Output:
	// true false 20
	// true false
	// true 30
}
