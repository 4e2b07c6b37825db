package wheel

import "github.com/txmgr/txmgr/timeout"

// span returns how many ticks a bucket of a level stands for.
func (w *Wheel[T]) span(level int) timeout.Tick { return 1 << (uint(level) * w.shift) }

// grow adds a level on top.
func (w *Wheel[T]) grow() {
	buckets := make([]bucket[T], 2<<w.shift)
	for i := range buckets {
		buckets[i].init(w, len(w.levels))
	}
	w.levels = append(w.levels, buckets)
}

// bucketAt returns the bucket of a level that stands for the ticks around end, if the level covers it.
func (w *Wheel[T]) bucketAt(level int, end timeout.Tick) *bucket[T] {
	buckets := w.levels[level]
	return &buckets[int(end>>(uint(level)*w.shift&63))&(len(buckets)-1)]
}

// lowest returns the lowest level that covers a tick: end lies in the block of the cursor or in the one that follows.
func (w *Wheel[T]) lowest(end timeout.Tick) int {
	level, shift := 0, w.shift&63
	block, current := end>>shift, w.cursor>>shift
	for block-current > 1 {
		block >>= shift
		current >>= shift
		level++
	}
	return level
}

// target returns the bucket for a task that ends at the given tick, below the level top: the highest that covers the tick
// and is not empty, because those that wait there came first, or that of the lowest level.
func (w *Wheel[T]) target(top, lowest int, end timeout.Tick) *bucket[T] {
	for level := top - 1; level > lowest; level-- {
		if b := w.bucketAt(level, end); b.count > 0 {
			return b
		}
	}
	return w.bucketAt(lowest, end)
}

// place finds the bucket for a task that was added.
func (w *Wheel[T]) place(t *Task[T]) {
	lowest := w.lowest(t.end)
	for lowest >= len(w.levels) {
		w.grow()
	}
	b := w.target(len(w.levels), lowest, t.end)
	w.put(b, t)
	if b.level > lowest {
		w.moveDown(b, 2)
	}
}

// put appends a task to a bucket and updates the delay queue if necessary.
func (w *Wheel[T]) put(b *bucket[T], t *Task[T]) {
	b.append(t)
	switch {
	case b.count == 1:
		b.start = t.end &^ (w.span(b.level) - 1)
		w.queue.Insert(&b.node, t.end)
	case b.level == 0:
	case b.count > w.step && !b.early:
		b.early = true
		w.reschedule(b, max(w.cursor, b.start-w.span(b.level)))
	case t.end < b.node.End():
		w.reschedule(b, t.end)
	}
}

// reschedule moves a bucket in the delay queue.
func (w *Wheel[T]) reschedule(b *bucket[T], at timeout.Tick) {
	w.queue.Remove(&b.node)
	w.queue.Insert(&b.node, at)
}

// retire takes a bucket that has become empty out of the delay queue.
func (w *Wheel[T]) retire(b *bucket[T]) {
	b.early = false
	w.queue.Remove(&b.node)
}

// moveDown moves up to n tasks from the front of a bucket to lower levels.
func (w *Wheel[T]) moveDown(b *bucket[T], n int) {
	n = min(n, b.count)
	t := b.root.next
	for range n {
		next := t.next
		w.put(w.target(b.level, w.lowest(t.end), t.end), t)
		t = next
	}
	b.root.next, t.prev = t, &b.root
	b.count -= n
	if b.count == 0 {
		w.retire(b)
	}
}

// cascade empties the buckets of higher levels that are due by now, until something on level 0 is
// due or nothing is. It advances the cursor.
func (w *Wheel[T]) cascade() {
	for {
		n := w.queue.Peek()
		if n == nil || n.End() > w.now {
			w.cursor = w.now
			return
		}
		w.cursor = n.End()
		b := n.Value
		if b.level == 0 {
			return
		}
		w.cascadeBucket(b)
	}
}

// cascadeBucket empties a bucket that is due, or takes the next step if there is time for several.
func (w *Wheel[T]) cascadeBucket(b *bucket[T]) {
	if b.count <= w.step || b.start <= w.cursor {
		w.moveDown(b, b.count)
		return
	}
	ticks := b.start - w.cursor
	w.moveDown(b, max(w.step, int((timeout.Tick(b.count)+ticks-1)/ticks)))
	if b.count > 0 {
		steps := timeout.Tick(b.count+w.step-1) / timeout.Tick(w.step)
		w.reschedule(b, w.cursor+max(1, ticks/steps))
	}
}
