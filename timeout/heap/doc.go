// Package heap is a balanced binary heap whose nodes are the elements themselves: it gives the one
// that ends first. The zero [Heap] is empty; call [Heap.Insert] with a node and its end,
// [Heap.Peek] or [Heap.Pop] for the first, [Heap.Remove] for any:
//
//	var h heap.Heap[string]
//	n := &heap.Node[string]{Value: "a"}
//	h.Insert(n, 7)
//	first := h.Peek()
//	h.Remove(n)
//
// A [Node] carries a value and the tick at which it ends. A [Heap] links nodes into a tree whose
// root ends first. Any node can be removed at any time, wherever it stands. It is the delay queue
// under the clock of [github.com/txmgr/txmgr/timeout/wheel], whose buckets are its nodes.
//
// # Why
//
// A heap in an array has to grow the array, and tells each element where it stands through
// callbacks. Here the memory for the links is in the element, so nothing is allocated, nothing is
// copied, and a heap costs two words however large it has been. The algorithm is that of the
// timeout heap in the State Threads library.
//
// # How
//
// Nodes are numbered as in an array, from 1: the children of N are 2N and 2N+1. All levels are
// full but the last, which is filled from the left. With nine nodes it is always this tree:
//
//	           1
//	      /         \
//	     2           3
//	   /   \       /   \
//	  4     5     6     7
//	 / \
//	8   9
//
// Pointers lead downwards only, left and right. A number is also the path to its node: below the
// leading one, each binary digit gives a turn, 0 left and 1 right. 9 is 1001: left, left, right.
//
//   - Insert walks to the first free number. Where the new node ends before one on the way, it
//     takes that one's place, and carries it on downwards.
//   - Remove takes out the last node and puts it where the removed one stood. Ends never fall on a
//     way down, so the walk there has seen whether it belongs higher; otherwise it sinks to where
//     its children end no earlier.
//   - Both find their node by its number, and check on arrival whether it is the right one, so a
//     node need not know its heap: a node of another heap is refused for the price of one
//     comparison.
//
// Insert, Remove and Pop take as many steps as the tree has levels, Peek takes one.
//
// # Invariants
//
//  1. Full: the numbers are 1 to Len, each once, and the node with number N is reached by the
//     digits of N.
//  2. Left-adjusted: a node with number N has a left child exactly if 2N <= Len, a right one
//     exactly if 2N+1 <= Len.
//  3. Heap order: no node ends before its parent.
//  4. A node that stands in no heap has the number 0 and no children, so it keeps nothing from the
//     garbage collector.
//  5. A call that is refused changes nothing.
//  6. The same calls in the same order have the same results in every process.
//
// # Concurrency and time
//
// A heap has one owner and no lock. It reads no clock and starts no goroutine: an end is a number
// to compare.
//
// # What it does not do
//
// It does not keep nodes with equal ends in the order in which they came. It does not find a node
// by its value, nor change an end: remove the node and insert it again.
package heap
