package survival

import (
	"fmt"
	"math/bits"
)

// check verifies the invariants of a table between two calls: 5 to 8 of the package doc.
func (t *Table) check() error {
	s := &t.groups
	if s.base > t.now || s.base%pageSize != 0 {
		return fmt.Errorf("base %d lies after now %d, or inside a page", s.base, t.now)
	}
	inUse := make(map[uint32]bool)  // groups
	inList := make(map[uint32]bool) // chunks
	ends := make(map[Tick]uint32)   // number of the group
	pending := 0
	visit := func(i uint32) error {
		g := s.at(i)
		if inUse[i] || ends[g.end] != 0 {
			return fmt.Errorf("group %d (end %d) found twice", i, g.end)
		}
		inUse[i], ends[g.end] = true, i
		live, prev := uint32(0), uint32(0)
		for k := g.head; k != 0; k = t.chunks.at(k).next {
			c := t.chunks.at(k)
			if inList[k] {
				return fmt.Errorf("chunk %d found twice", k)
			}
			inList[k] = true
			n := uint8(0)
			for _, id := range c.ids[:c.used] {
				if id != 0 {
					n++
				}
			}
			switch {
			case c.group != i:
				return fmt.Errorf("chunk %d of group %d names group %d", k, i, c.group)
			case c.prev != prev:
				return fmt.Errorf("chunk %d follows %d and names %d", k, prev, c.prev)
			case n != c.live:
				return fmt.Errorf("chunk %d counts %d and holds %d", k, c.live, n)
			case n == 0:
				return fmt.Errorf("chunk %d of group %d is empty", k, i)
			case c.next != 0 && c.used != chunkIDs:
				return fmt.Errorf("chunk %d is not the last and not full", k)
			}
			live += uint32(n)
			prev = k
		}
		switch {
		case g.tail != prev:
			return fmt.Errorf("group %d names tail %d, its last chunk is %d", i, g.tail, prev)
		case g.live != live:
			return fmt.Errorf("group %d counts %d and holds %d", i, g.live, live)
		case live == 0:
			return fmt.Errorf("group %d (end %d) is empty", i, g.end)
		}
		pending += int(live)
		return nil
	}

	for slot, i := range s.ring {
		if marked := s.marks.words[slot/64]>>(slot%64)&1 == 1; marked != (i != 0) {
			return fmt.Errorf("slot %d: marked %v, group %d", slot, marked, i)
		}
		if i == 0 {
			continue
		}
		if end := s.at(i).end; end < s.base || end-s.base >= ringSize || int(end%ringSize) != slot {
			return fmt.Errorf("slot %d holds the group of %d at base %d", slot, end, s.base)
		}
		if err := visit(i); err != nil {
			return err
		}
	}
	for w, word := range s.marks.words {
		if marked := s.marks.summary[w/64]>>(w%64)&1 == 1; marked != (word != 0) {
			return fmt.Errorf("word %d: marked %v, %d slots", w, marked, bits.OnesCount64(word))
		}
	}
	if err := s.overflow.check(s, visit); err != nil {
		return err
	}

	for i := s.free; i != 0; i = s.at(i).link {
		if inUse[i] {
			return fmt.Errorf("group %d is free and in use, or free twice", i)
		}
		inUse[i] = true
	}
	if len(inUse) != max(1, int(s.made))-1 {
		return fmt.Errorf("%d of %d groups are lost", int(s.made)-1-len(inUse), s.made-1)
	}
	for k := t.chunks.free; k != 0; k = t.chunks.at(k).next {
		if c := t.chunks.at(k); inList[k] || c.used != 0 || c.live != 0 {
			return fmt.Errorf("chunk %d is free and in use, or free twice: %+v", k, *c)
		}
		inList[k] = true
	}
	if len(inList) != max(1, int(t.chunks.made))-1 {
		return fmt.Errorf("%d of %d chunks are lost", int(t.chunks.made)-1-len(inList), t.chunks.made-1)
	}
	if none := t.chunks.at(0); none.used != chunkIDs || none.live != 0 || none.ids != [chunkIDs]uint64{} {
		return fmt.Errorf("chunk 0 was written: %+v", *none)
	}
	if none := *s.at(0); none != (group{}) {
		return fmt.Errorf("group 0 was written: %+v", none)
	}
	if pending != t.pending {
		return fmt.Errorf("%d pending, %d held", t.pending, pending)
	}
	return nil
}

func (f *overflow) check(s *groups, visit func(uint32) error) error {
	books, pages := make(map[uint32]bool), make(map[uint32]bool)
	for n, e := range f.heap {
		b := f.segments[e.segment]
		switch {
		case books[e.segment]:
			return fmt.Errorf("book %d stands twice in the heap", e.segment)
		case b.start != e.start || b.start%segmentSize != 0 || int(b.heap) != n:
			return fmt.Errorf("heap place %d holds %v, the book says start %d, place %d", n, e, b.start, b.heap)
		case n > 0 && e.start <= f.heap[(n-1)/2].start:
			return fmt.Errorf("heap place %d starts at %d, not after its parent", n, e.start)
		case f.segment(e.start) != e.segment:
			return fmt.Errorf("book of %d is not in its bucket", e.start)
		case b.marks == [segmentLen / 64]uint64{}:
			return fmt.Errorf("book of %d is empty", e.start)
		}
		books[e.segment] = true
		for n, k := range b.pages {
			if marked := b.marks[n/64]>>(n%64)&1 == 1; marked != (k != 0) {
				return fmt.Errorf("book of %d, place %d: marked %v, page %d", b.start, n, marked, k)
			}
			if k == 0 {
				continue
			}
			start := b.start + Tick(n)*pageSize
			if pages[k] || f.at(k).mask == 0 || start < s.base || s.inRing(start) {
				return fmt.Errorf("page %d of %d at base %d was found twice, is empty, or belongs into the ring", k, start, s.base)
			}
			pages[k] = true
			if err := f.at(k).check(s, start, visit); err != nil {
				return err
			}
		}
	}
	chained := 0
	for _, i := range f.buckets {
		for ; i != 0; i = f.segments[i].link {
			chained++
		}
	}
	if chained != len(f.heap) {
		return fmt.Errorf("%d books in buckets, %d in the heap", chained, len(f.heap))
	}
	for i := f.freeSegment; i != 0; i = f.segments[i].link {
		if b := f.segments[i]; books[i] || b.pages != [segmentLen]uint32{} || b.marks != [segmentLen / 64]uint64{} {
			return fmt.Errorf("book %d is free and in use, or free twice", i)
		}
		books[i] = true
	}
	for k := f.free; k != 0; k = f.at(k).link {
		if pages[k] || f.at(k).groups != [pageSize]uint32{} || f.at(k).mask != 0 {
			return fmt.Errorf("page %d is free and in use, or free twice", k)
		}
		pages[k] = true
	}
	if len(books) != max(1, len(f.segments))-1 || len(pages) != max(1, int(f.made))-1 {
		return fmt.Errorf("%d books and %d pages found, %d and %d made", len(books), len(pages), len(f.segments)-1, f.made-1)
	}
	return nil
}

func (p *page) check(s *groups, start Tick, visit func(uint32) error) error {
	for n, i := range p.groups {
		if marked := p.mask>>n&1 == 1; marked != (i != 0) {
			return fmt.Errorf("page of %d, tick %d: marked %v, group %d", start, n, marked, i)
		}
		if i == 0 {
			continue
		}
		if end := s.at(i).end; end != start+Tick(n) {
			return fmt.Errorf("page of %d, tick %d holds the group of %d", start, n, end)
		}
		if err := visit(i); err != nil {
			return err
		}
	}
	return nil
}
