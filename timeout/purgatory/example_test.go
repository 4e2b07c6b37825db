package purgatory_test

import (
	"context"
	"fmt"
	"sync"
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

// A request watches the transaction that it waits for. The code that changes the transaction checks
// its key.
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

// A request that watches two keys, and is completed by the first that is checked.
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

	parked.Cancel() // the caller has left
	fmt.Println("done:", parked.Done())
	// Output:
	// done: false
	// cancelled: active
	// done: true
}

// batch waits for the transactions of a batch: until one is rolled back, after which the others are of no interest, or until
// all are committed.
type batch struct {
	states *sync.Map // of transactions, by id
	ids    []string
	answer func(string)
	seen   string
}

func (b *batch) TryComplete() bool {
	committed := 0
	for _, id := range b.ids {
		switch state, _ := b.states.Load(id); state {
		case "committed":
			committed++
		case "rolled back":
			b.seen = id + " rolled back"
			return true
		}
	}
	b.seen = fmt.Sprintf("%d of %d committed", committed, len(b.ids))
	return committed == len(b.ids)
}

func (b *batch) Complete(how purgatory.Outcome) { b.answer(fmt.Sprintf("%s: %s", how, b.seen)) }

// A request watches each of the transactions that it depends on, and is tried when any of them changes. Where one
// request waits for several things, or several ways lead to its end, each of them is a key of the request.
func ExamplePurgatory_Park_severalKeys() {
	p, err := purgatory.Start[string](purgatory.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Stop()

	var states sync.Map
	decide := func(id, state string) {
		states.Store(id, state)
		p.Check(id)
		fmt.Printf("%s %s: %d parked\n", id, state, p.Len())
	}
	for _, ids := range [][]string{{"tx_1", "tx_2", "tx_3"}, {"tx_3", "tx_4"}} {
		q := &batch{states: &states, ids: ids, answer: func(s string) { fmt.Println(s) }}
		if _, err := p.Park(q, time.Minute, ids...); err != nil {
			fmt.Println(err)
		}
	}
	decide("tx_1", "committed")
	decide("tx_2", "rolled back")
	decide("tx_3", "committed")
	decide("tx_4", "committed")
	// Output:
	// tx_1 committed: 2 parked
	// satisfied: tx_2 rolled back
	// tx_2 rolled back: 1 parked
	// tx_3 committed: 1 parked
	// satisfied: 2 of 2 committed
	// tx_4 committed: 0 parked
}

// A goroutine that has nothing else to do waits itself, with Wait.
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
