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

// logPosition is one entry of one log: two logs with an entry of the same index and term are equal
// up to there.
type logPosition struct{ index, term uint64 }

// logRecorder records everything that was ever written to any log, independent of the disks.
type logRecorder struct {
	mu        sync.Mutex // guards all below
	entries   map[logPosition]*loggedEntry
	snapshots map[logPosition]*snapshotImage
	variants  map[logPosition][]*snapshotImage // snapshots of other nodes with a different encoding
	faults    []string
}

// loggedEntry is an entry, the term of the previous one, and when the first node had it on its
// disk.
type loggedEntry struct {
	log    *raft.Log
	before uint64
	known  bool // before is
	at     time.Duration
	host   int
}

func newLogRecorder() *logRecorder {
	return &logRecorder{entries: map[logPosition]*loggedEntry{}, snapshots: map[logPosition]*snapshotImage{}, variants: map[logPosition][]*snapshotImage{}}
}

// record is called with the lock of the disk held.
func (b *logRecorder) record(d *disk, logs []*raft.Log, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range logs {
		p := logPosition{l.Index, l.Term}
		e := b.entries[p]
		if e == nil {
			e = &loggedEntry{log: l, at: now, host: d.host.index}
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

// recorded returns all snapshots that were taken, and the errors of the logs.
func (b *logRecorder) recorded() (map[logPosition]*snapshotImage, []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.snapshots), slices.Clone(b.faults)
}

// recordSnapshot records a snapshot.
func (b *logRecorder) recordSnapshot(i *snapshotImage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := logPosition{i.meta.Index, i.meta.Term}
	switch first := b.snapshots[p]; {
	case first == nil:
		b.snapshots[p] = i
	case !bytes.Equal(first.body, i.body):
		b.variants[p] = append(b.variants[p], i)
	}
}

// variantsOf returns the snapshots of the same state that other nodes have encoded differently.
func (b *logRecorder) variantsOf(p logPosition) []*snapshotImage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.variants[p])
}

// chain returns the log that ends with the given entry, from its beginning.
func (b *logRecorder) chain(end logPosition) ([]*loggedEntry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	chain := make([]*loggedEntry, end.index)
	for p := end; p.index > 0; {
		e := b.entries[p]
		if e == nil || !e.known && p.index > 1 {
			return nil, fmt.Errorf("the books know no entry %d of term %d, or not what precedes it", p.index, p.term)
		}
		chain[p.index-1] = e
		p = logPosition{p.index - 1, e.before}
	}
	return chain, nil
}
