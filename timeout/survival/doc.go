// Package survival is the survival index: it decides which transactions have timed out. Call
// [NewTable], [Table.Add] when a transaction begins, [Table.Cancel] when it is decided, and at
// every tick [Table.Advance] and [Table.Expire]:
//
//	t := survival.NewTable(0)
//	ref := t.Add(id, 600) // ends at tick 600
//	t.Cancel(id, ref)
//	t.Advance(600)
//	n := t.Expire(buf)
//
// The timeout thread of a coordinator runs once in every interval. The number of its invocations
// that a transaction survives is known when the transaction begins: that is its [Index].
// Transactions with the same number of invocations left form a group, and when the group's last
// invocation comes, all of them have timed out together. [Table] holds the groups.
//
// # Why
//
// An index ages with every invocation, so it cannot be a key. Its hash can: the remaining
// invocations plus the number of invocations since the beginning of the cluster. It never changes,
// and it is the number of the invocation that ends the group. Every replica that reads the same
// log computes the same keys, and needs no clock to do so. A deadline is a [Tick] in the log.
//
// The thread of the original algorithm walks all groups and counts each down. Here the count of a
// group is the difference between its key and [Table.Now], so an invocation touches the groups
// that end and no others: one at which nothing ends costs tens of nanoseconds, with nothing
// pending as with a million transactions: 19 to 39 where processors were free (go test -bench
// IdleTick ./timeout/survival).
//
// # How
//
//   - A group is a list of chunks of one cache line, each with the ids of six transactions. Adding
//     writes the next free place of the last chunk. Cancelling writes a zero over the id; the
//     chunk that becomes empty leaves the list.
//   - Groups of the next 8192 ticks stand in a ring, a bitmap of which finds the first. Later ones
//     stand in pages of sixteen ticks, in a hash table and a heap, and move into the ring a page
//     at a time.
//   - Chunks, groups and pages refer to each other by number, so the garbage collector has no
//     pointers to follow, and freed ones are used again, so a table at a steady load does not
//     allocate.
//
// # Invariants
//
//  1. A transaction is taken when Now has reached its end, never before.
//  2. It is taken once or cancelled once, never both.
//  3. Transactions are taken in the order of their ends, and inside a group in the order in which
//     they joined it.
//  4. A cancel whose Ref is not that of a pending transaction with that id changes nothing.
//  5. A group has at least one transaction, so the first group is what comes next.
//  6. No group ends before base, base is not after Now, and a group stands in the ring exactly if
//     it ends within 8192 ticks of base.
//  7. A chunk in a list holds at least one transaction, and all but the last have given out all
//     their places.
//  8. Every chunk, group and page is either in use once or free once, and number 0 of each stays
//     blank.
//  9. The same calls in the same order have the same results in every process.
//
// # Concurrency and time
//
// A table has one owner and no lock. It reads no clock and starts no goroutine; the owner passes
// the time. Advancing over a year costs no more than over a tick, and a group of a million ends at
// once: the owner takes its transactions in batches of a size of its choice.
//
// # What it does not do
//
// It does not know what a transaction is, and does not roll one back. It does not detect an id
// that is added twice. It never returns memory: a table keeps the memory of its peak.
package survival
