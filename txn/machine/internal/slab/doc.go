// Package slab holds the records of the state machine: items under stable 32-bit slots, in blocks that the garbage collector need
// not scan and that a snapshot shares with the machine. [Slab] holds items of one type without pointers, [Strings] byte strings of any
// length.
//
//	s := slab.New[record](&snapshots)
//	i := s.Take()
//	s.Edit(i).count++
//
// # Snapshots
//
// [Slab.Share] takes the present pages, in a time that depends on the number of blocks only. While any snapshot may be read, which the
// counter given to [New] says, the slab copies a block before it first writes it; the snapshot goes on reading the old one.
//
// # Concurrency
//
// A slab has one owner at a time. Pages that were shared are read by any number of goroutines while their owner goes on.
package slab
