package logstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/txmgr/txmgr/raftfsm/wal"
)

// suffixCompact is the name of a file that programs of format 1 made when they compacted.
const suffixCompact = ".compact"

// moveBytes is how much one frame of moved entries holds, about.
const moveBytes = 1 << 20

// moveEntries copies the entries of a file of format 1 into segments, under another name until they are complete. If
// there are segments, a crash came after that. When they are read they are compared with the file, which is then replaced.
func (s *Store) moveEntries(o *opening) error {
	old, err := readFormatOne(s.path, s.opts.LockTimeout, nil)
	if err != nil {
		return err
	}
	o.Verified = func() error { return s.compareMoved(old.found) }
	o.complete = func() error { return s.replaceLocked(old.values) }
	dir := s.path + suffixSegments
	if _, err := os.Lstat(dir); err == nil {
		return nil
	}
	if err := s.copyEntries(dir+suffixNew, old.found.commit); err != nil {
		return errors.Join(fmt.Errorf("move the entries of %s into segments: %w", s.path, err), os.RemoveAll(dir+suffixNew))
	}
	return rename(dir+suffixNew, dir)
}

func (s *Store) copyEntries(to string, commit uint64) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	l, err := wal.Open(to, wal.Options{SegmentBytes: s.opts.SegmentBytes}, nil)
	if err != nil {
		return err
	}
	m := mover{log: l, commit: commit}
	if _, err = readFormatOne(s.path, s.opts.LockTimeout, m.add); err == nil {
		err = m.flush()
	}
	return errors.Join(err, l.Close())
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
	differ := &CorruptError{File: s.path, Reason: "it has format 1, and the segments beside it do not hold its entries: it is of another log, or of another time"}
	if s.entries.count() != old.entries || s.commit != old.commit {
		return differ
	}
	var b []byte
	_, err := readFormatOne(s.path, s.opts.LockTimeout, func(index uint64, v []byte) error {
		e, ok := s.entries.find(index)
		if !ok || int(e.size) != len(v) {
			return differ
		}
		b = slices.Grow(b[:0], len(v))[:len(v)]
		if err := e.frame.ReadAt(int64(e.at), b); err != nil {
			return err
		}
		if !bytes.Equal(b, v) {
			return differ
		}
		return nil
	})
	return err
}
