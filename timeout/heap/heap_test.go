package heap

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/timeout"
)

// history drives a heap and its model with the same calls and compares all results.
type history struct {
	heap  Heap[int]
	model model
	other Heap[int]    // another heap, with nodes of the same numbers
	nodes []*Node[int] // all ever made, gone ones included
	alien []*Node[int] // those of the other heap
}

type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func newHistory(aliens int) *history {
	h := &history{}
	for i := range aliens {
		n := &Node[int]{Value: -1 - i}
		h.other.Insert(n, timeout.Tick(i))
		h.alien = append(h.alien, n)
	}
	return h
}

func (h *history) insert(t fataler, n *Node[int], end timeout.Tick) {
	t.Helper()
	before, queued := n.End(), slices.Contains(h.model.nodes, n)
	if h.heap.Insert(n, end) == queued {
		t.Fatalf("Insert = %v for a node with Queued %v", !queued, queued)
	}
	if queued {
		if n.End() != before {
			t.Fatalf("a refused Insert changed the end from %d to %d", before, n.End())
		}
		return
	}
	if n.End() != end {
		t.Fatalf("End = %d after Insert at %d", n.End(), end)
	}
	h.model.insert(n, end)
}

func (h *history) add(t fataler, end timeout.Tick) {
	t.Helper()
	n := &Node[int]{Value: len(h.nodes)}
	h.nodes = append(h.nodes, n)
	h.insert(t, n, end)
}

func (h *history) remove(t fataler, n *Node[int]) {
	t.Helper()
	if got, want := h.heap.Remove(n), h.model.remove(n); got != want {
		t.Fatalf("Remove = %v, want %v", got, want)
	}
}

func (h *history) pop(t fataler) {
	t.Helper()
	first := h.model.first()
	n := h.heap.Pop()
	if n == nil && len(first) == 0 {
		return
	}
	if !slices.Contains(first, n) {
		t.Fatalf("Pop = %v, want one of %d that end first", n, len(first))
	}
	h.model.remove(n)
}

func (h *history) compare(t fataler) {
	t.Helper()
	if err := h.heap.check(); err != nil {
		t.Fatal(err)
	}
	if err := h.other.check(); err != nil {
		t.Fatalf("the other heap: %v", err)
	}
	if h.heap.Len() != len(h.model.nodes) {
		t.Fatalf("Len = %d, want %d", h.heap.Len(), len(h.model.nodes))
	}
	if n := h.heap.Peek(); n == nil && h.heap.Len() > 0 || n != nil && !slices.Contains(h.model.first(), n) {
		t.Fatalf("Peek = %v of %d nodes", n, h.heap.Len())
	}
	held := make(map[*Node[int]]bool)
	for _, n := range h.model.nodes {
		held[n] = true
	}
	for i, n := range h.nodes {
		switch {
		case n.Value != i:
			t.Fatalf("the value of node %d has become %d", i, n.Value)
		case n.Queued() != held[n]:
			t.Fatalf("Queued = %v, the twin says %v", n.Queued(), held[n])
		case !held[n] && n.child != [2]*Node[int]{}:
			t.Fatal("a node that has left still knows others")
		}
	}
}

// TestModel compares the heap with a sorted list in random histories, and checks everything after
// each step: all invariants of the package doc but 6.
func TestModel(t *testing.T) { rapid.Check(t, runHistory) }

// FuzzModel is TestModel with histories that the fuzzer finds.
func FuzzModel(f *testing.F) { f.Fuzz(rapid.MakeFuzz(runHistory)) }

func runHistory(t *rapid.T) {
	h := newHistory(rapid.IntRange(0, 20).Draw(t, "aliens"))
	end := rapid.OneOf(
		rapid.Uint64Range(0, 4), // many equal ones
		rapid.Uint64Range(0, 1000),
		rapid.SampledFrom([]uint64{0, 1, 1 << 63, math.MaxUint64 - 1, math.MaxUint64}),
	)
	draw := func(t *rapid.T) timeout.Tick { return timeout.Tick(end.Draw(t, "end")) }
	one := func(t *rapid.T) *Node[int] { return rapid.SampledFrom(h.nodes).Draw(t, "node") }
	h.add(t, draw(t))
	t.Repeat(map[string]func(*rapid.T){
		"":       func(t *rapid.T) { h.compare(t) },
		"insert": func(t *rapid.T) { h.add(t, draw(t)) },
		"insert many": func(t *rapid.T) {
			for range rapid.IntRange(2, 40).Draw(t, "n") {
				h.add(t, draw(t))
				h.compare(t)
			}
		},
		"insert again":    func(t *rapid.T) { h.insert(t, one(t), draw(t)) },
		"remove":          func(t *rapid.T) { h.remove(t, one(t)) },
		"remove twice":    func(t *rapid.T) { n := one(t); h.remove(t, n); h.remove(t, n) },
		"remove the last": func(t *rapid.T) { h.remove(t, h.heap.find(h.heap.size)) },
		"remove of another heap": func(t *rapid.T) {
			if len(h.alien) > 0 {
				h.remove(t, rapid.SampledFrom(h.alien).Draw(t, "alien"))
			}
		},
		"insert of another heap": func(t *rapid.T) {
			if len(h.alien) > 0 && h.heap.Insert(rapid.SampledFrom(h.alien).Draw(t, "alien"), draw(t)) {
				t.Fatal("inserted a node that stands in another heap")
			}
		},
		"remove a copy": func(t *rapid.T) {
			c := *one(t)
			h.remove(t, &c)
		},
		"pop": func(t *rapid.T) { h.pop(t) },
		"pop many": func(t *rapid.T) {
			for range rapid.IntRange(2, 20).Draw(t, "n") {
				h.pop(t)
				h.compare(t)
			}
		},
	})
}

// TestEveryPlace removes the node of every number from heaps of every size, with substitutes that belong above, in and
// below the place that becomes free.
func TestEveryPlace(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for size := 1; size <= 70; size++ {
		for index := 1; index <= size; index++ {
			for _, spread := range []uint64{1, 3, 1000} {
				h := newHistory(0)
				for range size {
					h.add(t, timeout.Tick(r.Uint64N(spread)))
				}
				h.compare(t)
				n := h.heap.find(uint64(index))
				h.remove(t, n)
				h.compare(t)
				h.insert(t, n, timeout.Tick(r.Uint64N(spread)))
				h.compare(t)
			}
		}
	}
}

// TestEveryOrder goes through all orders in which seven nodes can come, and removes each in turn.
func TestEveryOrder(t *testing.T) {
	const size = 7
	var ends [size]timeout.Tick
	var permute func(k int)
	permute = func(k int) {
		if k < size {
			for i := k; i < size; i++ {
				ends[k], ends[i] = ends[i], ends[k]
				permute(k + 1)
				ends[k], ends[i] = ends[i], ends[k]
			}
			return
		}
		for gone := range size {
			h := newHistory(0)
			for _, end := range ends {
				h.add(t, end)
			}
			h.remove(t, h.nodes[gone])
			h.compare(t)
			for h.heap.Len() > 0 {
				h.pop(t)
			}
		}
	}
	for i := range ends {
		ends[i] = timeout.Tick(i)
	}
	permute(0)
}

// TestLong runs one history that grows to more than a thousand nodes and shrinks to none.
func TestLong(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	h := newHistory(0)
	for _, phase := range []struct{ steps, insert int }{{3000, 75}, {3000, 45}, {3000, 20}} {
		for step := range phase.steps {
			switch x := r.IntN(100); {
			case x < phase.insert:
				h.add(t, timeout.Tick(r.Uint64N(100_000)))
			case x < 90 && len(h.model.nodes) > 0:
				h.remove(t, h.model.nodes[r.IntN(len(h.model.nodes))])
			default:
				h.pop(t)
			}
			if step%8 > 0 {
				continue
			}
			if err := h.heap.check(); err != nil {
				t.Fatal(err)
			}
		}
		h.compare(t)
	}
	for h.heap.Len() > 0 {
		h.pop(t)
	}
	h.compare(t)
}

func TestZeroHeap(t *testing.T) {
	var h Heap[string]
	if h.Len() != 0 || h.Peek() != nil || h.Pop() != nil {
		t.Error("the zero heap is not empty")
	}
	if h.Remove(nil) || h.Remove(&Node[string]{}) || h.Insert(nil, 1) {
		t.Error("the zero heap accepted what is no node of it")
	}
	if err := h.check(); err != nil {
		t.Error(err)
	}
}

func TestOperationsDoNotAllocate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h Heap[int]
	nodes := make([]Node[int], 1000)
	for i := range nodes {
		h.Insert(&nodes[i], timeout.Tick(r.Uint64N(1000)))
	}
	if n := testing.AllocsPerRun(1000, func() {
		n := &nodes[r.IntN(len(nodes))]
		h.Remove(n)
		h.Insert(n, timeout.Tick(r.Uint64N(1000)))
		first := h.Pop()
		h.Insert(first, timeout.Tick(r.Uint64N(1000)))
	}); n != 0 {
		t.Errorf("%v allocations per round, want 0", n)
	}
}
