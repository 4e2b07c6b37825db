// Package logstore keeps raft's log with its commit index in segments (package wal), and its term and vote in a bbolt file.
// Call [Open], and give the [Store] to raft as its log store and its stable store:
//
//	store, err := logstore.Open(path, logstore.Options{OnFailure: stop, Snapshots: snapshots})
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//
// It exists because raft's promises rest on these files, and the stores that there are check too little for that: see
// docs/decisions/0043.
//
// # Invariants
//
//  1. Durable: when StoreLogs, DeleteRange or Set returns nil, the change is on the disk. An append costs one
//     fdatasync.
//  2. Nothing silently wrong: every entry carries a CRC32C over its index and itself, checked whenever it is read, and
//     is in a frame that has its own; the settings are in a file with a checksum of the whole. Open reads all of
//     it first, from the disk rather than from memory, and detects missing data, and files of another log. It cannot
//     detect that a disk has lost the last write, or the last sector of the log, without an error, which look like
//     a torn write; nor settings of an earlier time, which package node/storage finds by their term.
//  3. Fail-stop: after the first error of a write, or the first damage met by a read, the store
//     does nothing more. Every later call returns the same error ([ErrFailed]), and
//     [Options].OnFailure is called once.
//  4. In order: entries are never overwritten; an append that is neither consecutive nor after the end is
//     refused. An append or a DeleteRange is done completely or not at all, whenever the process dies; but the
//     append after a snapshot may leave only the deletion of the last entry before it, which the snapshot covers.
//  5. The commit index is written with the entries it was staged for, in the same frame, and is never
//     beyond the last entry.
//  6. One owner: a lock file excludes other processes.
//  7. A refusal changes nothing: neither a file of another program or of a newer version, nor a damaged one,
//     nor an append out of order, leaves a trace.
//  8. Bounded: entries, keys and values have limits; files whose entries are deleted are used again, or removed.
//
// # Holes
//
// After raft has installed a snapshot up to index S it goes on with entry S+1, and the log may still end before
// S. The hole between is legitimate. It stays until raft's next truncation reaches across it.
//
// raft offers to delete all older entries instead, to stores that implement raft.MonotonicLogStore.
// This one does not: when raft v1.8.0 installs a snapshot a second time it then also deletes the
// entries it has stored after S, and goes on believing that it has them. A follower in that state
// panics ("log not found") when the leader changes: tested. Options.Snapshots removes the reason
// why raft gets into this state at all.
//
// # The files
//
// PATH holds the settings: raft's term and vote, and what the node keeps (settings_file.go). PATH.segments is
// the directory of segments: each append is a frame of entries (append.go), each DeleteRange one of its range (delete.go).
// PATH.lock is locked while the store is open. Names with .new are incomplete. Where entries are is kept in memory, 24
// bytes for each.
//
// Before, everything was in PATH (format 1). Open moves such a log into segments once; a crash on the way loses nothing
// (move.go), and programs of format 1 refuse what it has made. testdata/log_v1.db.gz was written by the last of them.
//
// # Concurrency
//
// All methods are safe for concurrent use. Changes wait for each other (Store.mu); reads run beside them, on the
// state of the last one (Store.view). Close waits for all calls. No lock is held while OnFailure or
// Options.Snapshots is called. Package wal has one goroutine, while it fills a file in advance.
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
// (raft.NewLogCache does).
package logstore
