package slab

import "sync/atomic"

// blockItems is how many items one block has. A block is the unit that is copied when it is
// written while a snapshot shares it. With 240, blocks of records and of cells just fit a size
// class of the allocator.
const blockItems = 240

type block[T any] struct {
	epoch uint64 // of the slab when this block was made or copied
	items [blockItems]T
}

// Pages is the readable part of a slab: for its owner, or through a snapshot.
type Pages[T any] struct {
	blocks []*block[T]
	used   uint32 // slots ever taken, including slot 0, which names nothing
}

// Used is the number of slots ever taken: those from 1 up to, and without, Used have an item, which is zero when it was given back.
func (p *Pages[T]) Used() uint32 { return p.used }

// At returns slot i for reading. The pointer is valid until the next edit.
func (p *Pages[T]) At(i uint32) *T { return &p.blocks[i/blockItems].items[i%blockItems] }

// Slab holds items without pointers under stable 32-bit slots. The free slots
// are a stack beside the items, so that taking one waits for no cache miss.
type Slab[T any] struct {
	Pages[T]
	free   []uint32
	epoch  uint64
	shared *atomic.Int32 // snapshots that may still be read
}

// New returns an empty slab. shared counts the snapshots that may still be read.
func New[T any](shared *atomic.Int32) Slab[T] {
	s := Slab[T]{shared: shared}
	s.blocks = []*block[T]{new(block[T])}
	s.used = 1
	return s
}

// Edit returns slot i for writing, on a copy of its block when a snapshot shares that. The
// pointer is valid until the next snapshot.
func (s *Slab[T]) Edit(i uint32) *T {
	b := s.blocks[i/blockItems]
	if b.epoch != s.epoch {
		if s.shared.Load() > 0 {
			c := *b
			b = &c
			s.blocks[i/blockItems] = b
		}
		b.epoch = s.epoch
	}
	return &b.items[i%blockItems]
}

// Take returns a free slot; its item is zero.
func (s *Slab[T]) Take() uint32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	i := s.used
	if int(i/blockItems) == len(s.blocks) {
		s.blocks = append(s.blocks, &block[T]{epoch: s.epoch})
	}
	s.used++
	return i
}

// Give frees slot i.
func (s *Slab[T]) Give(i uint32) {
	var zero T
	*s.Edit(i) = zero
	s.free = append(s.free, i)
}

// Len counts the taken slots.
func (s *Slab[T]) Len() int { return int(s.used) - 1 - len(s.free) }

// Share returns the present pages. The caller has counted itself in shared before.
func (s *Slab[T]) Share() Pages[T] {
	s.epoch++
	return Pages[T]{blocks: append([]*block[T](nil), s.blocks...), used: s.used}
}
