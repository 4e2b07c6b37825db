package wheel

import (
	"slices"

	"github.com/txmgr/txmgr/timeout"
)

// model is a list sorted by the ends, and within one end by the order of adding. It is slow and
// simple.
type model struct {
	now     timeout.Tick
	waiting []entry
}

type entry struct {
	task *Task[int]
	end  timeout.Tick
}

func (w *model) add(t *Task[int], end timeout.Tick) {
	e := entry{t, max(end, w.now)}
	at := slices.IndexFunc(w.waiting, func(x entry) bool { return x.end > e.end })
	if at < 0 {
		at = len(w.waiting)
	}
	w.waiting = slices.Insert(w.waiting, at, e)
}

func (w *model) find(t *Task[int]) int {
	return slices.IndexFunc(w.waiting, func(x entry) bool { return x.task == t })
}

func (w *model) cancel(t *Task[int]) bool {
	at := w.find(t)
	if at >= 0 {
		w.waiting = slices.Delete(w.waiting, at, at+1)
	}
	return at >= 0
}

func (w *model) pop() *Task[int] {
	if len(w.waiting) == 0 || w.waiting[0].end > w.now {
		return nil
	}
	t := w.waiting[0].task
	w.waiting = slices.Delete(w.waiting, 0, 1)
	return t
}
