package wheel

import (
	"fmt"

	"github.com/txmgr/txmgr/timeout"
)

// check verifies the invariants of a wheel between two calls: 5 to 8 of the package doc. Values are
// the numbers in which the tasks were added.
func (w *Wheel[T]) check(number func(*Task[T]) int) error {
	if w.cursor > w.now {
		return fmt.Errorf("the cursor %d is after now %d", w.cursor, w.now)
	}
	size, queued := 0, 0
	newest := make(map[timeout.Tick]int) // on the levels seen so far, by end
	for level := range w.levels {
		seen := make(map[timeout.Tick]int)
		for slot := range w.levels[level] {
			b := &w.levels[level][slot]
			if err := b.check(level); err != nil {
				return fmt.Errorf("level %d, bucket %d: %w", level, slot, err)
			}
			if err := w.checkQueued(b, slot); err != nil {
				return fmt.Errorf("level %d, bucket %d: %w", level, slot, err)
			}
			size += b.count
			if b.count > 0 {
				queued++
			}
			for t := b.root.next; t != &b.root; t = t.next {
				if before, ok := newest[t.end]; ok && before > number(t) {
					return fmt.Errorf("task %d of %d stands above task %d, which came later", number(t), t.end, before)
				}
				if before, ok := seen[t.end]; ok && before > number(t) {
					return fmt.Errorf("task %d of %d stands behind task %d, which came later", number(t), t.end, before)
				}
				seen[t.end] = number(t)
			}
		}
		for end, n := range seen {
			newest[end] = n
		}
	}
	if err := w.due.check(0); err != nil {
		return fmt.Errorf("list of what is due: %w", err)
	}
	end := timeout.Tick(0)
	for t := w.due.root.next; t != &w.due.root; t = t.next {
		if t.end < end || t.end > w.now {
			return fmt.Errorf("a task of %d follows one of %d at %d among what is due", t.end, end, w.now)
		}
		end = t.end
	}
	size += w.due.count
	if w.size != size || w.queue.Len() != queued || w.due.node.Queued() {
		return fmt.Errorf("%d tasks counted, %d found; %d buckets in the delay queue, %d hold tasks", w.size, size, w.queue.Len(), queued)
	}
	return nil
}

// check verifies the links of a bucket.
func (b *bucket[T]) check(level int) error {
	n, prev := 0, &b.root
	for t := b.root.next; t != &b.root; t = t.next {
		switch {
		case t == nil || n > b.count:
			return fmt.Errorf("the list of %d tasks does not close", b.count)
		case t.bucket != b:
			return fmt.Errorf("the task of %d says that it stands elsewhere", t.end)
		case t.prev != prev:
			return fmt.Errorf("the task of %d names another one before it", t.end)
		}
		n++
		prev = t
	}
	if b.root.prev != prev || n != b.count || b.level != level || b.node.Value != b {
		return fmt.Errorf("rear %p, want %p; %d tasks counted, %d found; says level %d", b.root.prev, prev, b.count, n, b.level)
	}
	return nil
}

// checkQueued verifies the position of a bucket in the delay queue, and its contents.
func (w *Wheel[T]) checkQueued(b *bucket[T], slot int) error {
	if b.node.Queued() != (b.count > 0) || b.count == 0 && b.early {
		return fmt.Errorf("%d tasks, in the delay queue: %v, in steps: %v", b.count, b.node.Queued(), b.early)
	}
	if b.count == 0 {
		return nil
	}
	at, span := b.node.End(), w.span(b.level)
	if at < w.cursor {
		return fmt.Errorf("wants attention at %d, before the cursor %d", at, w.cursor)
	}
	if b.count > w.step && b.level > 0 && at > max(b.start, w.cursor) {
		return fmt.Errorf("%d tasks of %d want attention at %d only", b.count, b.start, at)
	}
	for t := b.root.next; t != &b.root; t = t.next {
		switch {
		case t.end < at:
			return fmt.Errorf("the task of %d waits for %d", t.end, at)
		case t.end < b.start || t.end-b.start >= span || b.start%span != 0:
			return fmt.Errorf("the bucket of %d and the %d ticks after it holds the task of %d", b.start, span, t.end)
		case int(t.end/span%timeout.Tick(len(w.levels[b.level]))) != slot:
			return fmt.Errorf("the task of %d stands in a wrong bucket", t.end)
		case w.lowest(t.end) > b.level:
			return fmt.Errorf("the task of %d stands on a level that does not cover it at %d", t.end, w.cursor)
		}
	}
	return nil
}
