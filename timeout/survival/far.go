package survival

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"
)

const (
	pageSize = 16                  // ticks of a page
	bookSize = ringSize            // ticks of a book
	bookLen  = bookSize / pageSize // pages of a book
)

// page holds the groups of pageSize consecutive ticks. A page in use has at least one.
type page struct {
	link   uint32 // next free page
	mask   uint16 // which ticks have a group
	groups [pageSize]uint32
}

// book holds the pages of bookSize consecutive ticks. A book in use has at least one.
type book struct {
	start Tick   // its first tick, a multiple of bookSize
	heap  uint32 // its position in the heap
	link  uint32 // next book of the same bucket, or next free book
	marks [bookLen / 64]uint64
	pages [bookLen]uint32
}

// farStart is an element of the heap. It repeats the book's start, so that comparing touches no book.
type farStart struct {
	start Tick
	book  uint32
}

// far holds the groups that end beyond the ring: a hash table finds the book of a tick, a heap knows the first book, and
// the rest is by position.
//
// Books rather than groups, because there are few of them whatever is pending: a day at an interval of 100 ms has 106. The
// hash table and the heap grow by doubling; nothing here shrinks.
type far struct {
	slab[page]
	free     uint32  // top of the stack of free pages
	books    []*book // by number; 0 means none
	freeBook uint32  // top of the stack of free books
	buckets  []uint32
	heap     []farStart // the first book first; the children of n are 2n+1 and 2n+2
}

// find returns the group that ends at end, or 0.
func (f *far) find(end Tick) uint32 {
	i := f.book(end - end%bookSize)
	if i == 0 {
		return 0
	}
	return f.at(f.books[i].pages[end%bookSize/pageSize]).groups[end%pageSize]
}

// insert adds a group where find has found none.
func (f *far) insert(end Tick, group uint32) {
	i := f.book(end - end%bookSize)
	if i == 0 {
		i = f.openBook(end - end%bookSize)
	}
	b, n := f.books[i], end%bookSize/pageSize
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

// remove forgets a group that insert has added.
func (f *far) remove(end Tick) {
	i := f.book(end - end%bookSize)
	n := end % bookSize / pageSize
	p := f.at(f.books[i].pages[n])
	p.groups[end%pageSize] = 0
	p.mask &^= 1 << (end % pageSize)
	if p.mask == 0 {
		f.closePage(i, n)
	}
}

// closePage frees page n of a book, and the book with the last one.
func (f *far) closePage(i uint32, n Tick) {
	b := f.books[i]
	k := b.pages[n]
	*f.at(k) = page{link: f.free}
	f.free = k
	b.pages[n] = 0
	b.marks[n/64] &^= 1 << (n % 64)
	if b.marks == [bookLen / 64]uint64{} {
		f.closeBook(i)
	}
}

// first returns the group that ends first, or 0.
func (f *far) first() uint32 {
	if len(f.heap) == 0 {
		return 0
	}
	b := f.books[f.heap[0].book]
	p := f.at(b.pages[b.first()])
	return p.groups[bits.TrailingZeros16(p.mask)]
}

// start returns the first tick of the first page, or false if there is none.
func (f *far) start() (Tick, bool) {
	if len(f.heap) == 0 {
		return 0, false
	}
	b := f.books[f.heap[0].book]
	return b.start + b.first()*pageSize, true
}

// move copies the groups of the first page to where they stand from now on, and returns which ticks have one.
func (f *far) move(ring []uint32) uint16 {
	i := f.heap[0].book
	n := f.books[i].first()
	p := f.at(f.books[i].pages[n])
	mask := p.mask
	copy(ring, p.groups[:])
	f.closePage(i, n)
	return mask
}

// first returns the first page of a book in use.
func (b *book) first() Tick {
	w := 0
	for w < len(b.marks)-1 && b.marks[w] == 0 {
		w++
	}
	return Tick(w*64 + bits.TrailingZeros64(b.marks[w]))
}

// ascending yields the groups that end at from or later, the one that ends first before the others.
func (f *far) ascending(from Tick) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		sorted := slices.SortedFunc(slices.Values(f.heap), func(a, b farStart) int { return cmp.Compare(a.start, b.start) })
		for _, e := range sorted {
			first := Tick(0) // of the book's ticks
			if from > e.start {
				first = min(from-e.start, bookSize)
			}
			for n := first / pageSize; n < bookLen; n++ {
				k := f.books[e.book].pages[n]
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
