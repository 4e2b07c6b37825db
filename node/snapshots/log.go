package snapshots

import (
	"errors"

	"github.com/hashicorp/raft"
)

// entryOverhead is approximately what an entry takes in the log beside its data.
const entryOverhead = 64

func entryBytes(l *raft.Log) uint64 {
	return uint64(len(l.Data)) + uint64(len(l.Extensions)) + entryOverhead
}

// measureLog measures the existing log, and removes what the node had no time to remove before it
// last stopped.
func (s *Scheduler) measureLog() error {
	snaps, err := s.store.List()
	if err != nil {
		return err
	}
	var newest raft.SnapshotMeta
	if len(snaps) > 0 {
		newest = *snaps[0]
	}
	_, stored, err := s.logTail(newest.Index+1, max(s.least, uint64(newest.Size)))
	s.taken(0, uint64(newest.Size))
	s.stored.Store(stored)
	if err != nil {
		return err
	}
	return s.truncateLog(snaps)
}

// logTail goes back from the end of the log to the entry at low, or to where the entries exceed
// most bytes. It returns the lowest entry within both limits, and the bytes from there on: more
// than most when it ends before low.
func (s *Scheduler) logTail(low, most uint64) (from, size uint64, err error) {
	first, err := s.log.FirstIndex()
	if err != nil {
		return 0, 0, err
	}
	last, err := s.log.LastIndex()
	if err != nil {
		return 0, 0, err
	}
	low = max(low, first, 1)
	for from = last + 1; from > low && size <= most; {
		var l raft.Log
		switch err := s.log.GetLog(from-1, &l); {
		case errors.Is(err, raft.ErrLogNotFound): // a snapshot was installed
			return from, size, nil
		case err != nil:
			return 0, 0, err
		}
		if size += entryBytes(&l); size <= most {
			from--
		}
	}
	return from, size, nil
}

// truncateLog removes the beginning of the log. What follows the second newest snapshot stays,
// since it is needed if the newest is damaged; and so do the last bytes (least), for followers that lag.
// A follower that has removed entries which the leader, for lack of an answer, sends again
// receives a snapshot.
func (s *Scheduler) truncateLog(snaps []*raft.SnapshotMeta) error {
	if len(snaps) < 2 {
		return nil
	}
	first, err := s.log.FirstIndex()
	if err != nil || first == 0 || first > snaps[1].Index {
		return err
	}
	from, _, err := s.logTail(first, s.least)
	if err != nil {
		return err
	}
	if to := min(snaps[1].Index, from-1); first <= to {
		return s.log.DeleteRange(first, to)
	}
	return nil
}
