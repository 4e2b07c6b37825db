// Package logstore keeps raft's log, its term and vote, and its commit index in one bbolt file.
// Call [Open], and give the [Store] to raft as its log store and its stable store:
//
//	store, err := logstore.Open(path, logstore.Options{OnFailure: stop, Snapshots: snapshots})
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//
// It exists because raft's promises rest on this file, and bbolt alone checks too little for that:
// it notices almost no flipped bit, it dies of SIGBUS on a truncated file, after a damaged meta
// page it silently goes back by one transaction, and after a failed fsync it acknowledges the next
// commit as if nothing had happened. (HashiCorp's store for bbolt adds no check, and does not build
// with raft v1.8.0.)
//
// # Invariants
//
//  1. Durable: when StoreLogs, DeleteRange or Set returns nil, the change is on the disk.
//  2. Nothing silently wrong: every value carries a CRC32C over its key and itself, checked
//     whenever it is read. Open reads the whole file first, without bbolt and from the disk rather
//     than from memory, and compares it with a record of its contents, so that it also detects
//     missing and outdated data. It cannot detect one fault: a disk that lost the very last write
//     without an error; such a file is as it was before.
//  3. Fail-stop: after the first error of a write, or the first damage met by a read, the store
//     does nothing more. Every later call returns the same error ([ErrFailed]), and
//     [Options].OnFailure is called once.
//  4. In order: entries are never overwritten; an append that is neither consecutive nor after the end is
//     refused. No crash leaves a hole: a DeleteRange of the tail goes from its end, any other from its
//     beginning.
//  5. The commit index is written with the entries it was staged for, in the same transaction, and is never
//     beyond the last entry.
//  6. One owner: a lock file excludes other processes, also while Open replaces the file.
//  7. A refusal changes nothing: neither a file of another program or of a newer version, nor a damaged one,
//     nor an append out of order, leaves a trace.
//  8. Bounded: transactions, entries, keys and values have limits; a file that is mostly free is compacted by
//     Open.
//
// # Holes
//
// After raft has installed a snapshot up to index S it goes on with entry S+1, and the log may still end before
// S. The hole between is legitimate. It stays until raft's next truncation reaches across it; the record, which
// counts and sums the entries that exist, tells it from a loss.
//
// raft offers to delete all older entries instead, to stores that implement raft.MonotonicLogStore.
// This one does not: when raft v1.8.0 installs a snapshot a second time it then also deletes the
// entries it has stored after S, and goes on believing that it has them. A follower in that state
// panics ("log not found") when the leader changes: tested. Options.Snapshots removes the reason
// why raft gets into this state at all.
//
// # The file
//
// Three buckets: log (index, big endian, to entry), stable, and meta (format version, record). Entries of 8 KiB
// and more have a bucket of their own, so that bbolt does not copy them again with every append. Layouts are
// described at appendEntry, record and encodeFormat; testdata/format_v1.txt pins their bytes. Beside the file
// PATH there is PATH.lock, and during creation and compaction PATH.new and PATH.compact.
//
// # Concurrency
//
// All methods are safe for concurrent use. Changes wait for each other (Store.mu); reads of entries
// run beside them, on the state of the last commit; the bounds of the log and the commit index are
// atomics. A long DeleteRange lets appends in between its transactions. Close waits for all calls.
// No lock is held while OnFailure or Options.Snapshots is called. The package starts no goroutine.
//
// # Time
//
// The clock is read only for the time that Open waits for the lock.
//
// # What raft does with errors
//
// raft v1.8.0 does not stop when its store fails, which is why OnFailure exists. A leader whose
// StoreLogs fails fails the proposals of that batch (their outcome is unknown: they may be on the
// disk) and steps down to follower. A follower refuses the append and goes on. A failed DeleteRange
// is logged. A vote that cannot be stored is not given. A term that cannot be stored, and a
// committed entry that cannot be read, is a panic.
//
// # What it does not do
//
// It repairs nothing: a damaged log is replaced from the other nodes. It does not cache entries
// (raft.NewLogCache does). It does not shrink the file while it runs: free pages are used again,
// and Open compacts.
//
// OnFailure is not the last line of defence. After a failed write bbolt reads its pages again in a
// goroutine of its own, and if those are damaged as well the process dies of a panic that cannot be
// recovered: the store is stopped all the same.
package logstore
