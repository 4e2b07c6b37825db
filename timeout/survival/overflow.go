package survival

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"
)

const (
	pageSize    = 16                     // ticks of a page
	segmentSize = ringSize               // ticks of a segment
	segmentLen  = segmentSize / pageSize // pages of a segment
)

// page holds the groups of pageSize consecutive ticks. A page in use has at least one.
type page struct {
	link   uint32 // next free page
	mask   uint16 // which ticks have a group
	groups [pageSize]uint32
}

// segment holds the pages of segmentSize consecutive ticks. A segment in use has at least one.
type segment struct {
	start Tick   // its first tick, a multiple of segmentSize
	heap  uint32 // its position in the heap
	link  uint32 // next segment of the same bucket, or next free segment
	marks [segmentLen / 64]uint64
	pages [segmentLen]uint32
}

// segmentStart is an element of the heap. It repeats the segment's start, so that a comparison
// reads no segment.
type segmentStart struct {
	start   Tick
	segment uint32
}

// overflow holds the groups that end beyond the ring: a hash table finds the segment of a tick, a
// heap knows the first segment, and the rest is by position.
//
// It has segments rather than single groups, because there are few of them whatever is pending: a
// day at an interval of 100 ms has 106. The hash table and the heap grow by doubling; nothing here
// shrinks.
type overflow struct {
	slab[page]
	free        uint32     // top of the stack of free pages
	segments    []*segment // by number; 0 means none
	freeSegment uint32     // top of the stack of free segments
	buckets     []uint32
	heap        []segmentStart // the first segment first; the children of n are 2n+1 and 2n+2
}

// find returns the group that ends at end, or 0.
func (f *overflow) find(end Tick) uint32 {
	i := f.segment(end - end%segmentSize)
	if i == 0 {
		return 0
	}
	return f.at(f.segments[i].pages[end%segmentSize/pageSize]).groups[end%pageSize]
}

// insert adds a group that find has not found.
func (f *overflow) insert(end Tick, group uint32) {
	i := f.segment(end - end%segmentSize)
	if i == 0 {
		i = f.openSegment(end - end%segmentSize)
	}
	b, n := f.segments[i], end%segmentSize/pageSize
	k := b.pages[n]
	if k == 0 {
		if k = f.free; k == 0 {
			k = f.grow()
		}
		f.free = f.at(k).link // that of a page never used is 0, and so was free
		b.pages[n] = k
		b.marks[n/64] |= 1 << (n % 64)
	}
	p := f.at(k)
	p.groups[end%pageSize] = group
	p.mask |= 1 << (end % pageSize)
}

// remove removes a group that insert has added.
func (f *overflow) remove(end Tick) {
	i := f.segment(end - end%segmentSize)
	n := end % segmentSize / pageSize
	p := f.at(f.segments[i].pages[n])
	p.groups[end%pageSize] = 0
	p.mask &^= 1 << (end % pageSize)
	if p.mask == 0 {
		f.closePage(i, n)
	}
}

// closePage frees page n of a segment, and the segment with the last one.
func (f *overflow) closePage(i uint32, n Tick) {
	b := f.segments[i]
	k := b.pages[n]
	*f.at(k) = page{link: f.free}
	f.free = k
	b.pages[n] = 0
	b.marks[n/64] &^= 1 << (n % 64)
	if b.marks == [segmentLen / 64]uint64{} {
		f.closeSegment(i)
	}
}

// first returns the group that ends first, or 0.
func (f *overflow) first() uint32 {
	if len(f.heap) == 0 {
		return 0
	}
	b := f.segments[f.heap[0].segment]
	p := f.at(b.pages[b.first()])
	return p.groups[bits.TrailingZeros16(p.mask)]
}

// start returns the first tick of the first page, or false if there is none.
func (f *overflow) start() (Tick, bool) {
	if len(f.heap) == 0 {
		return 0, false
	}
	b := f.segments[f.heap[0].segment]
	return b.start + b.first()*pageSize, true
}

// move copies the groups of the first page to where they stand from now on, and returns which ticks have one.
func (f *overflow) move(ring []uint32) uint16 {
	i := f.heap[0].segment
	n := f.segments[i].first()
	p := f.at(f.segments[i].pages[n])
	mask := p.mask
	copy(ring, p.groups[:])
	f.closePage(i, n)
	return mask
}

// first returns the first page of a segment in use.
func (b *segment) first() Tick {
	w := 0
	for w < len(b.marks)-1 && b.marks[w] == 0 {
		w++
	}
	return Tick(w*64 + bits.TrailingZeros64(b.marks[w]))
}

// ascending yields the groups that end at from or later, the one that ends first before the others.
func (f *overflow) ascending(from Tick) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		sorted := slices.SortedFunc(slices.Values(f.heap), func(a, b segmentStart) int { return cmp.Compare(a.start, b.start) })
		for _, e := range sorted {
			first := Tick(0) // of the segment's ticks
			if from > e.start {
				first = min(from-e.start, segmentSize)
			}
			for n := first / pageSize; n < segmentLen; n++ {
				k := f.segments[e.segment].pages[n]
				if k == 0 {
					continue
				}
				for tick, i := range f.at(k).groups {
					if i != 0 && n*pageSize+Tick(tick) >= first && !yield(i) {
						return
					}
				}
			}
		}
	}
}
