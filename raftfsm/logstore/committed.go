package logstore

import "sync/atomic"

// state is the part of the file's content that is kept in memory.
type state struct {
	record
	first, last uint64
}

// committed is what readers see of the last state that was committed, without a lock: the bounds of
// the log, its size and the commit index. Writers call set one at a time. A reader of several
// of them may see values of two states.
type committed struct {
	first, last, commit, entries atomic.Uint64

	count atomic.Uint64 // transactions since Open
}

func (c *committed) set(s state) {
	c.first.Store(s.first)
	c.last.Store(s.last)
	c.commit.Store(s.commit)
	c.entries.Store(s.entries)
}
