package timeoutadapters

import (
	"github.com/txmgr/txmgr/timeout"
	"github.com/txmgr/txmgr/timeout/hashbelt"
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/timeout/timeouttest"
)

// subjects are the structures, those first whose ends may lie at any distance.
func subjects() []timeouttest.Subject {
	return []timeouttest.Subject{
		{Name: "survival", New: func(now timeout.Tick) timeout.Structure[any] {
			return timeouttest.Boxed(survival.NewTable(now))
		}},
		{Name: "heap", New: func(now timeout.Tick) timeout.Structure[any] {
			return timeouttest.Boxed(NewHeap(now))
		}},
		{Name: "wheel", New: func(now timeout.Tick) timeout.Structure[any] {
			return timeouttest.Boxed(NewWheel(now))
		}},
		belt("hashbelt of maps", hashbelt.NewMap),
		belt("hashbelt of lists", hashbelt.NewMapList),
		belt("hashbelt of slices", hashbelt.NewMapSlice),
	}
}

func belt(name string, fresh func() hashbelt.Container[uint64, uint64]) timeouttest.Subject {
	return timeouttest.Subject{Name: name, Horizon: Containers, New: func(now timeout.Tick) timeout.Structure[any] {
		b, err := NewBelt(Containers, now, fresh)
		if err != nil {
			panic(err) // the number is ours
		}
		return timeouttest.Boxed(b)
	}}
}
