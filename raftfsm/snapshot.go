package raftfsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/failpoint"
	"github.com/txmgr/txmgr/txn/machine"
)

// magic begins every snapshot; a byte with the version of the format follows.
const (
	magic = "txmgrsn"
	// snapshotVersion is the version that is written: it has no group, since the only one is group 0.
	snapshotVersion = 5
	// groupVersion also has the number of the raft group.
	groupVersion = 6
	// restoredVersion is the newest: it also marks the transactions from before a restore, and is
	// written while there are any. Earlier releases would lose the mark, and refuse it.
	restoredVersion = 7
)

// snapshot is the state at one moment, on its way to disk. Its Release lets the machine write in place again.
type snapshot struct{ *machine.Snapshot }

// Persist writes the snapshot while the machine goes on. It keeps one block in memory.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	err := writeSnapshot(sink, s.version(), s.Header(), withoutErrors(s.Sessions()), withoutErrors(s.Transactions()))
	if err != nil {
		_ = sink.Cancel() // the first error is the one to report
		return fmt.Errorf("snapshot: %w", err)
	}
	if err := sink.Close(); err != nil {
		return fmt.Errorf("snapshot: close: %w", err)
	}
	return nil
}

// version is the earliest that has room for all of the state.
func (s *snapshot) version() byte {
	if s.BeforeRestore() > 0 {
		return restoredVersion
	}
	return snapshotVersion
}

// withoutErrors adapts values that come from memory.
func withoutErrors[T any](all iter.Seq[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		all(func(v T) bool { return yield(v, nil) })
	}
}

// writeSnapshot does not write the end block after an error. It needs as many sessions as the
// header announces, and reads them before the transactions.
func writeSnapshot(w io.Writer, version byte, h machine.Header, sessions iter.Seq2[*machine.Session, error], txs iter.Seq2[*machine.Transaction, error]) error {
	b := newBlockWriter(w)
	if err := b.write(append([]byte(magic), version)); err != nil {
		return err
	}
	b.buf = appendSnapshotHeader(b.buf, &h)
	if version >= groupVersion {
		b.buf = binary.AppendUvarint(b.buf, 0) // the group
	}
	if err := b.flush(blockHeader); err != nil {
		return err
	}
	for i := range h.Audit {
		b.buf = appendAudit(b.buf, &h.Audit[i])
		if err := b.flushFull(blockAudit); err != nil {
			return err
		}
	}
	if err := b.flushRest(blockAudit); err != nil {
		return err
	}
	if err := writeSessions(b, h.Sessions, sessions); err != nil {
		return err
	}
	count := uint64(0)
	for t, err := range txs {
		if err != nil {
			return err
		}
		failpoint.Hit("snapshot half written")
		b.buf = appendTransaction(b.buf, t, version)
		count++
		if err := b.flushFull(blockTransactions); err != nil {
			return err
		}
	}
	if err := b.flushRest(blockTransactions); err != nil {
		return err
	}
	b.buf = b.sum.Sum(binary.AppendUvarint(b.buf, count))
	return b.flush(blockEnd)
}

// writeSessions refuses any other number of sessions than the header has announced: otherwise what
// follows could not be read.
func writeSessions(b *blockWriter, want int, sessions iter.Seq2[*machine.Session, error]) error {
	count := 0
	for s, err := range sessions {
		if err != nil {
			return err
		}
		b.buf = appendSession(b.buf, s)
		count++
		if err := b.flushFull(blockSessions); err != nil {
			return err
		}
	}
	if count != want {
		return fmt.Errorf("%d sessions, and the header says %d", count, want)
	}
	return b.flushRest(blockSessions)
}

// readSnapshot builds a machine from a stream, which must end with the snapshot.
func readSnapshot(r io.Reader) (*machine.Machine, error) {
	b := newBlockReader(r)
	h, version, err := readPreamble(b)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	m, err := machine.Restore(h, readSessions(b, h.Sessions), readTransactions(b, version))
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return m, nil
}

// readPreamble reads what precedes the sessions and transactions.
func readPreamble(b *blockReader) (h machine.Header, version byte, err error) {
	h, version, audit, err := readHeader(b)
	if err != nil {
		return h, 0, err
	}
	h.Audit, err = readAudit(b, audit)
	return h, version, err
}

// readHeader reads the version, and the header without the audit records, which follow.
func readHeader(b *blockReader) (h machine.Header, version byte, audit int, err error) {
	if err := b.read(len(magic) + 1); err != nil {
		return h, 0, 0, err
	}
	version = b.buf[len(magic)]
	switch {
	case string(b.buf[:len(magic)]) != magic:
		return h, 0, 0, fmt.Errorf("%w: it begins with %q; want %q", ErrCorrupt, b.buf[:len(magic)], magic)
	case version > restoredVersion:
		return h, 0, 0, fmt.Errorf("%w: version %d, the newest known here is %d: this node is older than what it reads; upgrade it", ErrUnknownVersion, version, restoredVersion)
	case version == 0:
		return h, 0, 0, fmt.Errorf("%w: there is no version %d", ErrCorrupt, version)
	}
	kind, body, err := b.next()
	if err != nil {
		return h, 0, 0, err
	}
	if kind != blockHeader {
		return h, 0, 0, b.corrupt("kind %d stands where the header should", kind)
	}
	r := newReader(body)
	h, audit = r.snapshotHeader(version)
	group := r.group(version)
	if err := r.end(); err != nil {
		return h, 0, 0, fmt.Errorf("block %d: %w", b.number, err)
	}
	if group != 0 {
		return h, 0, 0, fmt.Errorf("%w: it is of group %d of cluster %s, and this release serves group 0 only", ErrOtherGroup, group, h.Bootstrap.Cluster)
	}
	return h, version, audit, nil
}

// readAudit reads the blocks of the audit trail, which has count records.
func readAudit(b *blockReader, count int) (records []machine.AuditRecord, err error) {
	for len(records) < count {
		kind, body, err := b.next()
		if err != nil {
			return nil, err
		}
		if kind != blockAudit {
			return nil, b.corrupt("kind %d stands where %d more audit records should", kind, count-len(records))
		}
		r := newReader(body)
		for r.remaining() > 0 && len(records) < count {
			records = append(records, r.audit())
		}
		if err := r.end(); err != nil {
			return nil, fmt.Errorf("block %d: %w", b.number, err)
		}
	}
	return records, nil
}

// readSessions yields the sessions, as many as the header announces. The yielded value is reused; a
// caller that stops before the last of them cannot read on.
func readSessions(b *blockReader, count int) iter.Seq2[*machine.Session, error] {
	return func(yield func(*machine.Session, error) bool) {
		for read := 0; read < count; {
			kind, body, err := b.next()
			if err == nil && kind != blockSessions {
				err = b.corrupt("kind %d stands where %d more sessions should", kind, count-read)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			r := newReader(body)
			for r.remaining() > 0 && read < count {
				s := r.session()
				read++
				if r.err == nil && !yield(&s, nil) {
					return
				}
			}
			if err := r.end(); err != nil {
				yield(nil, fmt.Errorf("block %d: %w", b.number, err))
				return
			}
		}
	}
}

// readTransactions yields the transactions, and last the faults of the end block. The yielded value
// is reused.
func readTransactions(b *blockReader, version byte) iter.Seq2[*machine.Transaction, error] {
	return func(yield func(*machine.Transaction, error) bool) {
		var t machine.Transaction
		count := uint64(0)
		for {
			kind, body, err := b.next()
			if err != nil {
				yield(nil, err)
				return
			}
			r := newReader(body)
			switch kind {
			case blockTransactions:
				for r.remaining() > 0 {
					r.transaction(&t, version)
					if r.err != nil {
						yield(nil, fmt.Errorf("block %d: %w", b.number, r.err))
						return
					}
					count++
					if !yield(&t, nil) {
						return
					}
				}
			case blockEnd:
				if err := b.checkEnd(&r, count); err != nil {
					yield(nil, err)
				}
				return
			case 0, blockHeader, blockAudit, blockSessions:
				yield(nil, b.corrupt("kind %d stands where transactions should", kind))
				return
			default:
				r.failUnknown("a block", kind, newestBlock)
				yield(nil, fmt.Errorf("block %d: %w", b.number, r.err))
				return
			}
		}
	}
}

// checkEnd compares what was read with what was written, and requires the stream to end there.
func (b *blockReader) checkEnd(r *reader, count uint64) error {
	if want := r.uvarint(); r.err == nil && count != want {
		return b.corrupt("%d transactions were read; want %d", count, want)
	}
	if got := b.sum.Sum(nil); !bytes.Equal(got, r.data[r.at:]) {
		return b.corrupt("the checksum of the whole is %x; want %x", got, r.data[r.at:])
	}
	switch _, err := io.ReadFull(b.r, make([]byte, 1)); {
	case err == nil:
		return b.corrupt("more bytes stand behind the end")
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("block %d: read: %w", b.number, err)
	}
	return nil
}
