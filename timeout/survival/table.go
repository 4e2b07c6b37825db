package survival

import "iter"

// readAhead is the size of the largest group that fits a second-level cache between its rear and its front.
const readAhead = 4096

// MaxEntries is the largest number of transactions that a [Table] holds at a time.
const MaxEntries = 1<<29 - 1

// Ref is where a [Table] keeps a transaction: chunk and place in it. It stays valid until the
// transaction is taken or cancelled; [Table.Cancel] compares the id, so a stale Ref does no harm.
// The zero Ref refers to nothing.
type Ref uint32

func makeRef(k uint32, place uint8) Ref { return Ref(k<<3 | uint32(place)) }

func (r Ref) split() (k uint32, place uint8) { return uint32(r >> 3), uint8(r & 7) }

// Table is the group table: the pending transactions, grouped by the invocation that ends them.
//
// Make one with [NewTable]; the zero Table is not usable. A Table has one owner and no lock: concurrent use needs a guard
// of the caller's. Its methods return the same for the same calls in every process.
type Table struct {
	now     Tick
	pending int
	chunks  chunks
	groups  groups
}

// NewTable returns an empty table after now invocations.
//
// To rebuild a table, add the transactions in the order of [Table.All] to a new table of tick 0 and advance it.
func NewTable(now Tick) *Table {
	return &Table{now: now, chunks: newChunks(), groups: newGroups(now)}
}

// Now returns the number of invocations so far.
func (t *Table) Now() Tick { return t.now }

// Len returns how many transactions the table holds, including those that are due and not yet
// taken.
func (t *Table) Len() int { return t.pending }

// Add puts a transaction at the rear of the group that ends at end and returns the Ref for
// [Table.Cancel].
//
// An end that has passed counts as Now: the transaction is due at once, behind those that are due
// already. An id must not be pending twice. Add returns the zero Ref and adds nothing if id is 0 or
// the table holds [MaxEntries].
func (t *Table) Add(id uint64, end Tick) Ref {
	if id == 0 || t.pending >= MaxEntries {
		return 0
	}
	end = max(end, t.now)
	i := t.groups.find(end)
	if i == 0 {
		i = t.groups.open(end)
	}
	g := t.groups.at(i)
	k := g.tail
	c := t.chunks.at(k)
	if c.used == chunkIDs {
		k, c = t.extend(i, g)
	}
	place := c.used
	c.ids[place%chunkIDs] = id
	c.used++
	c.live++
	g.live++
	t.pending++
	return makeRef(k, place)
}

// extend gives a group another chunk at its rear.
func (t *Table) extend(i uint32, g *group) (uint32, *chunk) {
	k, c := t.chunks.take(i, g.tail)
	if g.tail != 0 {
		t.chunks.at(g.tail).next = k
	} else {
		g.head = k
	}
	g.tail = k
	return k, c
}

// Cancel removes the transaction id, for which Add returned ref. It reports false, and does nothing, if the transaction is
// gone or ref was never that of id. A transaction that is due and not yet taken can still be cancelled.
func (t *Table) Cancel(id uint64, ref Ref) bool {
	k, place := ref.split()
	if id == 0 || place >= chunkIDs || !t.chunks.holds(k) {
		return false
	}
	c := t.chunks.at(k)
	if c.ids[place] != id || place >= c.used {
		return false
	}
	c.ids[place] = 0
	c.live--
	t.pending--
	g := t.groups.at(c.group)
	g.live--
	if c.live == 0 {
		t.unlink(k, c, g)
	}
	return true
}

// unlink frees a chunk that has become empty, and its group with the last one.
func (t *Table) unlink(k uint32, c *chunk, g *group) {
	if g.live == 0 {
		t.groups.close(c.group)
		t.chunks.give(k, c)
		return
	}
	if c.prev != 0 {
		t.chunks.at(c.prev).next = c.next
	} else {
		g.head = c.next
	}
	if c.next != 0 {
		t.chunks.at(c.next).prev = c.prev
	} else {
		g.tail = c.prev
	}
	t.chunks.give(k, c)
}

// Advance moves Now forward to the tick to, however far; a tick that has passed has no effect.
// Nothing is taken: the groups that have ended are due from now on.
func (t *Table) Advance(to Tick) {
	if to <= t.now {
		return
	}
	t.now = to
	t.groups.slide(to)
}

// Next returns the tick at which the first of the transactions ends, at most Now if one is due, or false if there is none.
func (t *Table) Next() (Tick, bool) {
	i := t.groups.first()
	return t.groups.at(i).end, i != 0
}

// Due reports whether a transaction has ended and waits to be taken.
func (t *Table) Due() bool {
	end, ok := t.Next()
	return ok && end <= t.now
}

// Expire takes up to len(buf) transactions that are due and returns how many, 0 if none is. They
// come in the order of their ends, and inside a group in the order in which they joined it.
// Transactions that do not fit stay due, so that the caller decides how much is done in one step.
// The contents of buf behind the returned number are undefined.
func (t *Table) Expire(buf []uint64) int {
	n := 0
	for n < len(buf) && t.Due() {
		i := t.groups.first()
		g := t.groups.at(i)
		n += t.take(g, buf[n:])
		if g.live == 0 {
			t.groups.close(i)
		}
	}
	if n > 0 {
		t.pending -= n
		t.groups.slide(t.now)
	}
	return n
}

// take moves ids from the front of a group into buf and returns how many.
func (t *Table) take(g *group, buf []uint64) int {
	n, k := 0, g.head
	// Each chunk names the next, so the front alone would wait for memory at every one. Following
	// the rear towards it at the same time keeps two reads in flight, and the second half is in the
	// cache when it is reached.
	ahead := g.tail
	if g.live > readAhead {
		ahead = 0
	}
	for k != 0 {
		c := t.chunks.at(k)
		ahead = t.chunks.at(ahead).prev
		if rest := buf[n:]; len(rest) >= chunkIDs {
			n += c.takeAll((*[chunkIDs]uint64)(rest))
		} else {
			n += c.takeSome(rest)
			if c.live > 0 {
				c.prev = 0
				break
			}
		}
		next := c.next
		t.chunks.give(k, c)
		k = next
	}
	g.head = k
	g.live -= uint32(n)
	return n
}

// Groups yields every group that ends at from or later, in the order of their ends: the tick at
// which it ends, and how many transactions it holds. Finding the first costs no more than there are
// segments of groups. The table must not change meanwhile.
func (t *Table) Groups(from Tick) iter.Seq2[Tick, int] {
	return func(yield func(Tick, int) bool) {
		for i := range t.groups.ascending(from) {
			if g := t.groups.at(i); !yield(g.end, int(g.live)) {
				return
			}
		}
	}
}

// All yields every transaction in the order in which Expire would take it, and the tick at which it ends. The table must
// not change meanwhile.
func (t *Table) All() iter.Seq2[uint64, Tick] {
	return func(yield func(uint64, Tick) bool) {
		for i := range t.groups.ascending(0) {
			g := t.groups.at(i)
			for k := g.head; k != 0; {
				c := t.chunks.at(k)
				for _, id := range c.ids[:c.used] {
					if id != 0 && !yield(id, g.end) {
						return
					}
				}
				k = c.next
			}
		}
	}
}
