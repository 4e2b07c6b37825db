package survival

import "iter"

// group is the list of transactions that end with the same invocation. A group in use has at least one of them.
type group struct {
	end        Tick
	head, tail uint32 // first and last chunk
	live       uint32 // transactions
	link       uint32 // next free group
}

// groups finds a group by the tick at which it ends.
//
// Groups that end within ringSize ticks of base stand in the ring, at the slot that is their end
// modulo the size of the ring. Later ones stand in overflow. Groups keep their number when they
// move into the ring, so that moving one costs the same however many transactions it holds.
type groups struct {
	slab[group]
	free     uint32 // top of the stack of free groups
	base     Tick   // no group ends before it; a multiple of pageSize
	overflow overflow
	marks    bitmap
	ring     [ringSize]uint32
}

func newGroups(now Tick) groups {
	return groups{slab: slab[group]{blocks: []*[blockLength]group{new([blockLength]group)}}, base: now - now%pageSize}
}

func (s *groups) inRing(end Tick) bool { return end-s.base < ringSize }

// find returns the group that ends at end, or 0. The end must not lie before base. It repeats the
// code of inRange, which keeps it small enough for the compiler to inline it into Add.
func (s *groups) find(end Tick) uint32 {
	if end-s.base < ringSize {
		return s.ring[end%ringSize]
	}
	return s.overflow.find(end)
}

// open makes the group that ends at end, with no chunk yet.
func (s *groups) open(end Tick) uint32 {
	i := s.free
	if i == 0 {
		i = s.grow()
	}
	g := s.at(i)
	s.free = g.link // that of a group never used is 0, and so was free
	*g = group{end: end}
	if s.inRing(end) {
		slot := uint32(end % ringSize)
		s.ring[slot] = i
		s.marks.set(slot)
	} else {
		s.overflow.insert(end, i)
	}
	return i
}

// close forgets a group without transactions.
func (s *groups) close(i uint32) {
	g := s.at(i)
	if s.inRing(g.end) {
		slot := uint32(g.end % ringSize)
		s.ring[slot] = 0
		s.marks.clear(slot)
	} else {
		s.overflow.remove(g.end)
	}
	g.link = s.free
	s.free = i
}

// first returns the group that ends first, or 0.
func (s *groups) first() uint32 {
	if slot, ok := s.marks.next(uint32(s.base % ringSize)); ok {
		return s.ring[slot]
	}
	return s.overflow.first()
}

// slide moves base up to at most to, and moves the overflow pages that come within reach into the
// ring.
func (s *groups) slide(to Tick) {
	if i := s.first(); i != 0 {
		to = min(to, s.at(i).end)
	}
	s.base = to - to%pageSize
	for {
		start, ok := s.overflow.start()
		if !ok || !s.inRing(start) {
			break
		}
		s.marks.setPage(uint32(start%ringSize), s.overflow.move(s.ring[start%ringSize:]))
	}
}

// ascending yields the numbers of the groups that end at from or later, the one that ends first before the others.
func (s *groups) ascending(from Tick) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for end := max(s.base, from); end >= s.base && s.inRing(end); end++ {
			slot, ok := s.marks.next(uint32(end % ringSize))
			i := s.ring[slot]
			if !ok || s.at(i).end < end {
				break
			}
			if !yield(i) {
				return
			}
			end = s.at(i).end
		}
		for i := range s.overflow.ascending(from) {
			if !yield(i) {
				return
			}
		}
	}
}
