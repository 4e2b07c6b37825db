package logstore

import (
	"github.com/hashicorp/raft"
)

// snapshotEntryType is the type of an entry that stands for the end of a snapshot. raft panics
// instead of applying it, which is right: there is nothing to apply, and to go on without it would
// skip an entry.
const snapshotEntryType = raft.LogType(255)

// snapshotEntry returns the last entry of a snapshot that raft has installed: log gets its index
// and term.
//
// A follower that has installed a snapshot up to index S has no entry S. As long as it has none
// after S either, raft compares a leader's previous index S and term T with the snapshot. But once
// it has stored S+1 it looks for entry S in the log, does not find it, and refuses; and if only the
// answer to that one append was lost, the leader repeats the append, and sends the snapshot again,
// without end. With the term of S the follower accepts the append.
//
// The entry is returned only where it can mean nothing else: S+1 is stored, S and S-1 are not, and
// a snapshot ends at S. A leader cannot send the snapshot entry on as an entry, since for that it
// would need entry S-1. An append after S removes that one: see entryBeforeGap.
func (s *Store) snapshotEntry(index uint64, log *raft.Log) error {
	if s.opts.Snapshots == nil || index < 2 {
		return raft.ErrLogNotFound
	}
	edge := false
	err := s.look(func() {
		_, before := s.entries.find(index - 1)
		_, at := s.entries.find(index)
		_, after := s.entries.find(index + 1)
		edge = !before && !at && after
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

// snapshotAt finds a snapshot that ends at index.
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

// entryBeforeGap returns the last entry if an append from index on would leave a hole of one entry
// after it, which is the end of a snapshot; otherwise 0. The snapshot covers that last entry, and
// the append removes it, because there is no snapshot entry directly after a stored entry; and
// without a snapshot entry, if an answer is lost, raft sends the entries again from further and
// further back, each time some seconds later, and never gets past the hole.
func (s *Store) entryBeforeGap(index uint64) (uint64, error) {
	last, err := s.LastIndex()
	if err != nil || s.opts.Snapshots == nil || last == 0 || index != last+2 {
		return 0, err
	}
	_, found, err := s.snapshotAt(index - 1)
	if err != nil || !found {
		return 0, err
	}
	return last, nil
}
