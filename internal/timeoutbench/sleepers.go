package timeoutbench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/txmgr/txmgr/timeout"
	ownheap "github.com/txmgr/txmgr/timeout/heap"
)

// Numbers of the experiment that the pointer heap was first presented with.
const (
	Sleepers      = 1000
	SleeperRounds = 1000
)

// sleeperQueue is a queue of sleepers. Sleepers are numbered from 0, and their parts of the queue
// are allocated already.
type sleeperQueue interface {
	sleep(ends []timeout.Tick) // all of them
	interrupt() error          // all, one after the other
}

// threadOf is as large as a descriptor of State Threads, of which the queue's part is a small one.
type threadOf[N any] struct {
	node N
	_    [192]byte
}

// nodesOf are those of all sleepers: in threads, as in the source of the heap, or packed, one beside the other.
func nodesOf[N any](threads bool) []*N {
	all, packed, apart := make([]*N, Sleepers), make([]N, Sleepers), make([]threadOf[N], Sleepers)
	for n := range all {
		all[n] = &packed[n]
		if threads {
			all[n] = &apart[n].node
		}
	}
	return all
}

// Queues of the experiment, with the queue's part of a sleeper in a thread's descriptor, as in the
// source.
const (
	SleeperHeap = "heap, threads"
	SleeperList = "sorted list, threads"
)

var sleeperQueues = []struct {
	name string
	make func() sleeperQueue
}{
	{SleeperHeap, func() sleeperQueue { return &treeQueue{nodes: nodesOf[ownheap.Node[int]](true)} }},
	{SleeperList, func() sleeperQueue { return newListQueue(true) }},
	{"container/heap, threads", func() sleeperQueue { return &arrayQueue{items: nodesOf[arrayItem](true)} }},
	{"heap, packed", func() sleeperQueue { return &treeQueue{nodes: nodesOf[ownheap.Node[int]](false)} }},
	{"sorted list, packed", func() sleeperQueue { return newListQueue(false) }},
	{"container/heap, packed", func() sleeperQueue { return &arrayQueue{items: nodesOf[arrayItem](false)} }},
	{"time.AfterFunc", func() sleeperQueue { return &timerQueue{timers: make([]*time.Timer, Sleepers)} }},
}

// SleeperQueues are the names of the queues of the experiment, with the layout of the sleepers in
// memory.
func SleeperQueues() (all []string) {
	for _, q := range sleeperQueues {
		all = append(all, q.name)
	}
	return all
}

// Sleep makes [Sleepers] sleep in a queue for random times, interrupts all of them before any wakes
// up, and does that [SleeperRounds] times. It returns the milliseconds of a processor that the
// queue takes for it. That is the experiment by which State Threads chose its heap, without the
// threads: their cost is the same with every queue.
func Sleep(queue string) (Figures, error) {
	for _, q := range sleeperQueues {
		if q.name != queue {
			continue
		}
		sleepers, r, ends := q.make(), rand.New(rand.NewPCG(1, 2)), make([]timeout.Tick, Sleepers)
		var total time.Duration
		for range SleeperRounds {
			for n := range ends {
				ends[n] = timeout.Tick(r.Uint64N(1_000_000_000))
			}
			var err error
			total += ThreadCPU(func() {
				sleepers.sleep(ends)
				err = sleepers.interrupt()
			})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", queue, err)
			}
		}
		return Figures{queue: float64(total) / float64(time.Millisecond)}, nil
	}
	return nil, fmt.Errorf("there is no queue %q", queue)
}

// SleeperCell is the cost of the experiment with one queue, in milliseconds of a processor.
type SleeperCell struct {
	Queue  string    `json:"queue"`
	Median float64   `json:"median_ms"`
	Least  float64   `json:"least_ms"`
	Most   float64   `json:"most_ms"`
	Rounds []float64 `json:"rounds_ms"`
}

// RunSleepers carries the experiment out with every queue, each time in a process of its own, and in a new random order each
// round. args starts one with a queue. step is called when a measurement begins, and done when it ends; both may be nil.
func RunSleepers(ctx context.Context, program string, args func(queue string) []string, rounds int, step func(round int, queue string), done func()) ([]SleeperCell, error) {
	all := SleeperQueues()
	cells := make([]SleeperCell, len(all))
	for round := range rounds {
		for _, k := range rand.Perm(len(all)) {
			if step != nil {
				step(round+1, all[k])
			}
			found, err := inProcess(ctx, program, args(all[k]), "sleepers, "+all[k])
			if err != nil {
				return nil, err
			}
			cells[k].Rounds = append(cells[k].Rounds, found[all[k]])
			if done != nil {
				done()
			}
		}
	}
	for k := range cells {
		c := &cells[k]
		c.Queue = all[k]
		c.Median, c.Least, c.Most = spread(c.Rounds)
	}
	return cells, nil
}
