package logstore

import (
	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
)

// snapshotEntryType is the type of an entry that stands for the end of a snapshot. raft refuses to apply it (it
// panics), which is right: there is nothing to apply, and to go on without it would be to skip an entry.
const snapshotEntryType = raft.LogType(255)

// snapshotEntry answers for the last entry of a snapshot that raft has installed: log gets its index and term.
//
// A follower that has installed a snapshot up to index S has no entry S. As long as it has none after S either,
// raft compares a leader's "my entries follow S, of term T" with the snapshot. But once it has stored S+1 it
// looks for entry S in the log, does not find it, and refuses; and if only the answer to that one append was
// lost, the leader asks again, and sends the snapshot again, without end. With the term of S at hand the
// follower simply agrees.
//
// The answer is given only where it can mean nothing else: S+1 is stored, S and S-1 are not, and a snapshot
// ends at S. A leader can not send the anchor on as an entry, since for that it would need entry S-1. An append
// after S removes that one: see narrow.
func (s *Store) snapshotEntry(index uint64, log *raft.Log) error {
	if s.opts.Snapshots == nil || index < 2 || index >= s.last.Load() {
		return raft.ErrLogNotFound
	}
	edge := false
	err := s.view("read a log entry", func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketLog)
		before, at, after := indexKey(index-1), indexKey(index), indexKey(index+1)
		edge = storedEntry(b, before[:]) == nil && storedEntry(b, at[:]) == nil && storedEntry(b, after[:]) != nil
		return nil
	})
	if err != nil {
		return err
	}
	if !edge {
		return raft.ErrLogNotFound
	}
	term, found, err := s.snapshotAt(index)
	switch {
	case err != nil:
		return err
	case !found:
		return raft.ErrLogNotFound
	}
	*log = raft.Log{Index: index, Term: term, Type: snapshotEntryType}
	return nil
}

// snapshotAt looks for a snapshot that ends at index.
func (s *Store) snapshotAt(index uint64) (term uint64, found bool, err error) {
	metas, err := s.opts.Snapshots.List()
	if err != nil {
		return 0, false, err
	}
	for _, m := range metas {
		if m.Index == index {
			return m.Term, true, nil
		}
	}
	return 0, false, nil
}

// entryBeforeGap gives the last entry when an append from index on leaves a hole of one entry behind it, which is the
// end of a snapshot; otherwise 0. The snapshot covers that entry, and it goes with the append, because there is
// no anchor after an entry; and without one, if an answer is lost, raft sends the entries again from further and
// further back, each time some seconds later, and none gets past the hole.
func (s *Store) entryBeforeGap(index uint64) (uint64, error) {
	last := s.last.Load()
	if s.opts.Snapshots == nil || last == 0 || index != last+2 {
		return 0, nil
	}
	_, found, err := s.snapshotAt(index - 1)
	if err != nil || !found {
		return 0, err
	}
	return last, nil
}
