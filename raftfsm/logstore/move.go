package logstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/txmgr/txmgr/raftfsm/wal"
)

// suffixCompact is the name of a file that programs of format 1 made when they compacted.
const suffixCompact = ".compact"

// moveBytes is how much one frame of moved entries holds, about.
const moveBytes = 1 << 20

// moveEntries copies the entries of a file of format 1 into segments, under another name until they are complete. If
// there are segments, a crash came after that. complete, when they are open, compares them with the file and replaces it.
func (s *Store) moveEntries() (complete func() error, err error) {
	old, err := readFormatOne(s.path, s.opts.LockTimeout, nil)
	if err != nil {
		return nil, err
	}
	complete = func() error {
		if err := s.compareMoved(old.found); err != nil {
			return err
		}
		return s.replaceLocked(old.values)
	}
	dir := s.path + suffixSegments
	if _, err := os.Lstat(dir); err == nil {
		return complete, nil
	}
	if err := os.Mkdir(dir+suffixNew, 0o700); err != nil {
		return nil, err
	}
	l, err := wal.Open(dir+suffixNew, wal.Options{SegmentBytes: s.opts.SegmentBytes}, nil)
	if err != nil {
		return nil, err
	}
	m := mover{log: l, commit: old.found.commit}
	if _, err = readFormatOne(s.path, s.opts.LockTimeout, m.add); err == nil {
		err = m.flush()
	}
	if err = errors.Join(err, l.Close()); err != nil {
		return nil, fmt.Errorf("move the entries of %s into segments: %w", s.path, err)
	}
	return complete, rename(dir+suffixNew, dir)
}

// mover collects entries to frames.
type mover struct {
	log         *wal.Log
	commit      uint64
	first, next uint64 // of the entries in body
	body        []byte
}

func (m *mover) add(index uint64, v []byte) error {
	if index != m.next || len(m.body) >= moveBytes {
		if err := m.flush(); err != nil {
			return err
		}
		m.first = index
	}
	m.next = index + 1
	m.body = append(binary.BigEndian.AppendUint32(m.body, uint32(len(v))), v...)
	return nil
}

func (m *mover) flush() error {
	if len(m.body) == 0 {
		return nil
	}
	_, err := m.log.Append(wal.Frame{Kind: wal.Entries, Index: m.first, Commit: min(m.commit, m.next-1), Body: m.body})
	m.body = m.body[:0]
	return err
}

// compareMoved compares the segments with the file of format 1 whose entries they must hold. If they do not, the file
// was put there from a copy: of another log, or of an earlier time.
func (s *Store) compareMoved(old record) error {
	differ := &CorruptError{File: s.path, Reason: "it has format 1, and the segments beside it do not hold its entries: it is not of this log, or older"}
	if s.entries.count() != old.entries || s.commit != old.commit {
		return differ
	}
	_, err := readFormatOne(s.path, s.opts.LockTimeout, func(index uint64, v []byte) error {
		e, ok := s.entries.find(index)
		if !ok || int(e.size) != len(v) {
			return differ
		}
		b := make([]byte, e.size)
		if err := s.log.ReadAt(e.frame, int64(e.at), b); err != nil {
			return err
		}
		if !bytes.Equal(b, v) {
			return differ
		}
		return nil
	})
	return err
}
