package sim

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// place is one entry of one log: two logs that have an entry of the same index and
// term have the same up to there.
type place struct{ index, term uint64 }

// books are what was ever written to any log, kept beside the disks.
type books struct {
	mu      sync.Mutex // guards all below
	entries map[place]*written
	images  map[place]*image
	twins   map[place][]*image // those of other nodes that are written otherwise
	faults  []string
}

// written is an entry, the term of the one before it, and when the first node had it
// on its disk.
type written struct {
	log    *raft.Log
	before uint64
	known  bool // before is
	at     time.Duration
	host   int
}

func newBooks() *books {
	return &books{entries: map[place]*written{}, images: map[place]*image{}, twins: map[place][]*image{}}
}

// note is called with the lock of the disk held.
func (b *books) note(d *disk, logs []*raft.Log, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range logs {
		p := place{l.Index, l.Term}
		e := b.entries[p]
		if e == nil {
			e = &written{log: l, at: now, host: d.host.index}
			b.entries[p] = e
		} else if string(e.log.Data) != string(l.Data) || e.log.Type != l.Type {
			b.faults = append(b.faults, fmt.Sprintf("two entries %d of term %d", l.Index, l.Term))
		}
		before := d.log[l.Index-1]
		switch {
		case l.Index == 1:
			e.known = true
		case before == nil:
		case e.known && e.before != before.Term:
			b.faults = append(b.faults, fmt.Sprintf("entry %d of term %d follows one of term %d and one of term %d", l.Index, l.Term, e.before, before.Term))
		default:
			e.before, e.known = before.Term, true
		}
	}
}

// kept gives the snapshots that were ever taken, and what was wrong with the logs.
func (b *books) kept() (map[place]*image, []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.images), slices.Clone(b.faults)
}

// keep notes a snapshot.
func (b *books) keep(i *image) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := place{i.meta.Index, i.meta.Term}
	switch first := b.images[p]; {
	case first == nil:
		b.images[p] = i
	case !bytes.Equal(first.body, i.body):
		b.twins[p] = append(b.twins[p], i)
	}
}

// likenesses gives the snapshots of the same state that other nodes have written otherwise.
func (b *books) likenesses(p place) []*image {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.twins[p])
}

// chain gives the log that ends with the given entry, from its beginning.
func (b *books) chain(end place) ([]*written, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	chain := make([]*written, end.index)
	for p := end; p.index > 0; {
		e := b.entries[p]
		if e == nil || !e.known && p.index > 1 {
			return nil, fmt.Errorf("the books know no entry %d of term %d, or not what precedes it", p.index, p.term)
		}
		chain[p.index-1] = e
		p = place{p.index - 1, e.before}
	}
	return chain, nil
}
