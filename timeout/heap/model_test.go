package heap

import (
	"slices"

	"github.com/txmgr/txmgr/timeout"
)

// model is what the heap replaced in its source: a list sorted by the ends. It is slow, and obviously right.
type model struct{ nodes []*Node[int] }

func (w *model) insert(n *Node[int], end timeout.Tick) {
	at := slices.IndexFunc(w.nodes, func(x *Node[int]) bool { return x.End() > end })
	if at < 0 {
		at = len(w.nodes)
	}
	w.nodes = slices.Insert(w.nodes, at, n)
}

func (w *model) remove(n *Node[int]) bool {
	at := slices.Index(w.nodes, n)
	if at >= 0 {
		w.nodes = slices.Delete(w.nodes, at, at+1)
	}
	return at >= 0
}

// first returns the nodes any of which may come first.
func (w *model) first() []*Node[int] {
	n := 0
	for n < len(w.nodes) && w.nodes[n].End() == w.nodes[0].End() {
		n++
	}
	return w.nodes[:n]
}
