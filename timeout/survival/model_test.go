package survival

import "slices"

// model is the algorithm of the source document as written: a table from survival index to a list
// of transactions, and a thread that at every invocation walks all groups, increments the count of
// each, and ends those whose count has reached their survival. It is slow and simple.
type model struct {
	now    Tick
	groups []*modelGroup // in the order in which they were made
	due    []modelGroup  // ended and not yet taken, in the order in which they ended
}

type modelGroup struct {
	index Index
	end   Tick // of ended groups only
	ids   []uint64
}

func (w *model) add(id uint64, end Tick) {
	if end <= w.now {
		if n := len(w.due); n == 0 || w.due[n-1].end != w.now {
			w.due = append(w.due, modelGroup{end: w.now})
		}
		rear := &w.due[len(w.due)-1]
		rear.ids = append(rear.ids, id)
		return
	}
	index := Index{Survival: int64(end - w.now)}
	for _, g := range w.groups {
		if g.index.Equal(index) {
			g.ids = append(g.ids, id)
			return
		}
	}
	w.groups = append(w.groups, &modelGroup{index: index, ids: []uint64{id}})
}

func (w *model) cancel(id uint64) bool {
	for _, g := range w.groups {
		if n := slices.Index(g.ids, id); n >= 0 {
			g.ids = slices.Delete(g.ids, n, n+1)
			return true
		}
	}
	for n := range w.due {
		g := &w.due[n]
		if n := slices.Index(g.ids, id); n >= 0 {
			g.ids = slices.Delete(g.ids, n, n+1)
			return true
		}
	}
	return false
}

func (w *model) advance(to Tick) {
	for w.now < to {
		// Invocations that end no group differ from each other in nothing but the counts, so a run of them is one walk.
		step := int64(to - w.now)
		for _, g := range w.groups {
			step = min(step, g.index.Remaining())
		}
		w.now += Tick(step)
		w.groups = slices.DeleteFunc(w.groups, func(g *modelGroup) bool {
			g.index.Invocations += step
			if g.index.Survival != g.index.Invocations {
				return false
			}
			w.due = append(w.due, modelGroup{end: w.now, ids: g.ids})
			return true
		})
	}
}

func (w *model) expire(buf []uint64) int {
	n := 0
	for len(w.due) > 0 {
		m := copy(buf[n:], w.due[0].ids)
		n += m
		w.due[0].ids = w.due[0].ids[m:]
		if len(w.due[0].ids) > 0 {
			break
		}
		w.due = w.due[1:]
	}
	return n
}

// entry is one transaction as All yields it.
type entry struct {
	id  uint64
	end Tick
}

func (w *model) all() []entry {
	var all []entry
	for _, g := range w.due {
		for _, id := range g.ids {
			all = append(all, entry{id, g.end})
		}
	}
	sorted := slices.Clone(w.groups)
	slices.SortFunc(sorted, func(a, b *modelGroup) int { return int(a.index.Remaining() - b.index.Remaining()) })
	for _, g := range sorted {
		for _, id := range g.ids {
			all = append(all, entry{id, g.index.Hash(w.now)})
		}
	}
	return all
}
