package heap_test

import (
	"fmt"

	"github.com/txmgr/txmgr/timeout"
	"github.com/txmgr/txmgr/timeout/heap"
)

// Sleepers wait for their ticks. One is interrupted: it leaves the heap at once, wherever it stands.
func Example() {
	var sleeping heap.Heap[string]
	sleepers := make([]heap.Node[string], 9)
	for i, end := range []timeout.Tick{70, 20, 90, 40, 10, 60, 30, 80, 50} {
		sleepers[i].Value = fmt.Sprintf("sleeper %d", i+1)
		sleeping.Insert(&sleepers[i], end)
	}
	interrupted := &sleepers[3]
	fmt.Println("interrupted:", interrupted.Value, sleeping.Remove(interrupted))
	fmt.Println("once more:", sleeping.Remove(interrupted))

	const now = 45
	for first := sleeping.Peek(); first != nil && first.End() <= now; first = sleeping.Peek() {
		fmt.Println("wakes up:", sleeping.Pop().Value, "of", first.End())
	}
	fmt.Println("still asleep:", sleeping.Len(), "until", sleeping.Peek().End())
	// Output:
	// interrupted: sleeper 4 true
	// once more: false
	// wakes up: sleeper 5 of 10
	// wakes up: sleeper 2 of 20
	// wakes up: sleeper 7 of 30
	// still asleep: 5 until 50
}

// The heap does not change an end. Its owner takes the node out and puts it in again.
func ExampleHeap_Insert() {
	var h heap.Heap[string]
	var lease heap.Node[string]
	fmt.Println(h.Insert(&lease, 5))
	fmt.Println(h.Insert(&lease, 8), lease.End())

	h.Remove(&lease)
	fmt.Println(h.Insert(&lease, 8), lease.End())
	// Output:
	// true
	// false 5
	// true 8
}
