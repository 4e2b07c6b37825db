package purgatory_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/timeout/purgatory"
)

// decided waits until a transaction is decided.
type decided struct {
	state  *atomic.Value // of the transaction, as a string
	seen   string
	answer func(string)
}

func (d *decided) TryComplete() bool {
	d.seen = d.state.Load().(string)
	return d.seen != "active"
}

func (d *decided) Complete(how purgatory.Outcome) {
	d.answer(fmt.Sprintf("%s: %s", how, d.seen))
}

// A request watches the transaction that it waits for. Whoever changes the transaction checks its key.
func Example() {
	p, err := purgatory.Start[string](purgatory.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Stop()

	var state atomic.Value
	state.Store("active")
	reply := func(s string) { fmt.Println(s) }
	if _, err := p.Park(&decided{state: &state, answer: reply}, time.Minute, "tx_1"); err != nil {
		fmt.Println(err)
	}
	fmt.Println("parked:", p.Len())

	state.Store("committed")
	fmt.Println("completed:", p.Check("tx_1"))
	fmt.Println("parked:", p.Len())
	// Output:
	// parked: 1
	// satisfied: committed
	// completed: 1
	// parked: 0
}

// A request that watches two keys, and is completed by whichever comes first.
func ExamplePurgatory_Park() {
	p, err := purgatory.Start[string](purgatory.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Stop()

	var state atomic.Value
	state.Store("active")
	waiting := &decided{state: &state, answer: func(s string) { fmt.Println(s) }}
	parked, err := p.Park(waiting, 30*time.Second, "tx_1", "leadership")
	if err != nil {
		fmt.Println(err)
	}

	p.Check("leadership")
	fmt.Println("done:", parked.Done())

	parked.Cancel() // the caller went away
	fmt.Println("done:", parked.Done())
	// Output:
	// done: false
	// cancelled: active
	// done: true
}

// A goroutine that has nothing else to do waits itself.
func ExamplePurgatory_Wait() {
	p, err := purgatory.Start[string](purgatory.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Stop()

	var votes atomic.Int32
	go func() {
		for range 3 {
			votes.Add(1)
			p.Check("tx_1")
		}
	}()
	err = p.Wait(context.Background(), func() bool { return votes.Load() == 3 }, time.Minute, "tx_1")
	fmt.Println("all votes:", err)

	err = p.Wait(context.Background(), func() bool { return votes.Load() == 4 }, 20*time.Millisecond, "tx_1")
	fmt.Println("one more:", err)
	// Output:
	// all votes: <nil>
	// one more: the condition did not come about in time
}
