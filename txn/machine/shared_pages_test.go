package machine

import (
	"slices"
	"testing"

	"github.com/txmgr/txmgr/txn/machine/internal/slab"
)

// pagesOf copies the used slots of a snapshot's pages.
func pagesOf[T any](p *slab.Pages[T]) []T {
	all := make([]T, 0, p.Used())
	for i := range p.Used() {
		all = append(all, *p.At(i))
	}
	return all
}

// TestNoCommandWritesIntoASnapshot: in every state, each command leaves the pages that a
// snapshot shares as they were.
func TestNoCommandWritesIntoASnapshot(t *testing.T) {
	for _, w := range worlds {
		for _, c := range commands {
			m := w.build(t)
			s := m.Snapshot()
			txs, branches, cells, sessions := pagesOf(&s.image.txs), pagesOf(&s.image.branches), pagesOf((*slab.Pages[slab.Cell])(&s.image.cells)), pagesOf(&s.sessions)
			m.Apply(Entry{Commands: []Command{c.c}})
			if !slices.Equal(pagesOf(&s.image.txs), txs) || !slices.Equal(pagesOf(&s.image.branches), branches) ||
				!slices.Equal(pagesOf((*slab.Pages[slab.Cell])(&s.image.cells)), cells) || !slices.Equal(pagesOf(&s.sessions), sessions) {
				t.Errorf("%s, %s: the snapshot has changed", w.name, c.name)
			}
			s.Release()
		}
	}
}
