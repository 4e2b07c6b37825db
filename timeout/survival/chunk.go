package survival

// chunkIDs fills a chunk to one cache line of 64 bytes, so that a cancel, which knows its chunk,
// costs one miss.
const chunkIDs = 6

// chunk is a piece of a group's list of transactions. It holds no pointer, so the garbage collector
// never scans it.
type chunk struct {
	next, prev uint32 // neighbours in the group's list, 0 at its ends; next of a free chunk is the next free one
	group      uint32
	used       uint8 // how many places have been given out; 0 in a free chunk, so that no stale Ref finds an id in it
	live       uint8 // how many of them still hold a transaction
	ids        [chunkIDs]uint64
}

// chunks holds all chunks. Chunk 0 counts as full, so that Add need not test whether a group has a
// chunk yet.
type chunks struct {
	slab[chunk]
	free uint32 // top of the stack of free chunks
}

func newChunks() chunks {
	c := chunks{slab: slab[chunk]{blocks: []*[blockLength]chunk{new([blockLength]chunk)}}}
	c.at(0).used = chunkIDs
	return c
}

// take returns a chunk for the rear of a group whose list ends with prev.
func (s *chunks) take(group, prev uint32) (uint32, *chunk) {
	k := s.free
	if k == 0 {
		k = s.grow()
	}
	c := s.at(k)
	s.free = c.next // that of a chunk never used is 0, and so was free
	c.next, c.prev, c.group = 0, prev, group
	return k, c
}

// give returns a chunk that no list holds any more.
func (s *chunks) give(k uint32, c *chunk) {
	c.used, c.live = 0, 0
	c.next = s.free
	s.free = k
}

// takeAll copies the live ids to buf, which has room for a whole chunk, and returns how many there are. It writes the
// cancelled ones too and lets the next id overwrite them: which places are live cannot be predicted.
func (c *chunk) takeAll(buf *[chunkIDs]uint64) int {
	n := 0
	for _, id := range c.ids[:c.used] {
		buf[n] = id
		if id != 0 {
			n++
		}
	}
	return n
}

// takeSome moves as many of the first live ids to buf as it has room for, which is fewer than there are.
func (c *chunk) takeSome(buf []uint64) int {
	n := 0
	for place := 0; place < int(c.used) && n < len(buf); place++ {
		if id := c.ids[place]; id != 0 {
			buf[n] = id
			c.ids[place] = 0
			n++
		}
	}
	c.live -= uint8(n)
	return n
}
