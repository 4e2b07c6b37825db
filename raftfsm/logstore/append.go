package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/raftfsm/wal"
)

const (
	keepBuf    = 4 << 20  // how much encoding buffer is kept between calls
	frameLimit = 64 << 20 // StoreLogs begins another frame when one has reached this size
	sizeBytes  = 4        // of the size before each entry in a frame
)

// StoreLog stores one entry. See [Store.StoreLogs].
func (s *Store) StoreLog(log *raft.Log) error { return s.StoreLogs([]*raft.Log{log}) }

// StoreLogs appends entries: when it returns nil all of them are on the disk, with the staged commit index, at the
// cost of one fdatasync (one for each 64 MiB). After an error the store has failed, and a restart finds all of them or
// none; of more than 64 MiB perhaps only the first ones.
//
// The entries must be consecutive and come after the last one. They may leave a hole after it: raft does that
// after it has installed or restored a snapshot. Anything else is refused with [ErrOutOfOrder] and changes
// nothing, since it would overwrite what may be committed: raft deletes a conflicting tail first.
func (s *Store) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return s.look(func() {})
	}
	edge, err := s.entryBeforeGap(logs[0].Index)
	if err != nil {
		return err
	}
	return s.change("append to the log", func() (func() error, error) {
		_, last := s.entries.bounds()
		if err := checkAppend(last, logs); err != nil {
			return nil, err
		}
		return func() error {
			if edge > 0 && edge == last { // a crash may come in between: the snapshot covers that entry
				staged := s.staged
				if err := s.deleteLocked(edge, edge, s.entries.without(edge, edge)); err != nil {
					return err
				}
				s.staged = staged
			}
			for len(logs) > 0 {
				n, err := s.appendLocked(logs)
				if err != nil {
					return err
				}
				logs = logs[n:]
			}
			return nil
		}, nil
	})
}

func checkAppend(last uint64, logs []*raft.Log) error {
	if first := logs[0].Index; first <= last {
		return fmt.Errorf("%w: entry %d was to be stored after entry %d", ErrOutOfOrder, first, last)
	}
	for i, l := range logs {
		if want := logs[0].Index + uint64(i); l.Index != want || want == 0 {
			return fmt.Errorf("%w: entry %d in the place of entry %d", ErrOutOfOrder, l.Index, want)
		}
		if n := len(l.Data) + len(l.Extensions); n > MaxEntryBytes {
			return fmt.Errorf("%w: entry %d has %d bytes, the most is %d", ErrLimit, l.Index, n, MaxEntryBytes)
		}
	}
	return nil
}

// appendLocked appends a frame of entries, and returns how many are in it. Its body holds for each entry the size of
// its stored form (4 bytes, big endian), and that form.
func (s *Store) appendLocked(logs []*raft.Log) (int, error) {
	buf := s.buf[:0]
	var places []place
	for _, l := range logs {
		if len(buf) >= frameLimit {
			break
		}
		buf = binary.BigEndian.AppendUint32(buf, uint32(entrySize(l)))
		places = append(places, place{at: uint32(len(buf)), size: uint32(entrySize(l))})
		buf = appendEntry(buf, l)
	}
	if s.buf = buf; cap(buf) > keepBuf {
		s.buf = nil
	}
	n := len(places)
	f := wal.Frame{Kind: wal.Entries, Index: logs[0].Index, Commit: min(s.staged, logs[n-1].Index), Body: buf}
	p, err := s.log.Append(f)
	if err != nil {
		return 0, err
	}
	for i := range places {
		places[i].frame = p
	}
	s.view.Lock()
	defer s.view.Unlock()
	s.entries.add(f.Index, places)
	s.commit = f.Commit
	return n, nil
}

var errFrame = errors.New("the frame is no sequence of entries")

// placesIn verifies the entries of a frame, and returns where they are.
func placesIn(f wal.Frame, p wal.Position) (places []place, err error) {
	for b := f.Body; len(b) > 0; {
		if len(b) < sizeBytes {
			return nil, errFrame
		}
		n := binary.BigEndian.Uint32(b)
		if b = b[sizeBytes:]; uint64(n) > uint64(len(b)) {
			return nil, errFrame
		}
		if _, err := checkEntry(f.Index+uint64(len(places)), b[:n]); err != nil {
			return nil, fmt.Errorf("%s: %w", indexName(f.Index+uint64(len(places))), err)
		}
		places = append(places, place{p, uint32(len(f.Body) - len(b)), n})
		b = b[n:]
	}
	if len(places) == 0 {
		return nil, errFrame
	}
	return places, nil
}

// StageCommitIndex remembers a commit index that the next StoreLogs writes with its entries. Until then it is
// in memory only. The last one staged counts; deleting the tail of the log lowers it with the log.
func (s *Store) StageCommitIndex(index uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.look(func() { s.staged = index })
}
