package raftfsm

import (
	"bytes"
	"fmt"
	"io"
	"iter"

	"github.com/txmgr/txmgr/txn/machine"
)

// ReadHeader reads the header of a snapshot of any known version, without its audit trail, and
// returns it with a reader of the whole snapshot: what was read, then the rest of r.
//
// The error wraps [ErrCorrupt], [ErrUnknownVersion], [ErrUnknownKind] or [ErrOtherGroup] when the
// bytes are at fault.
func ReadHeader(r io.Reader) (h machine.Header, whole io.Reader, err error) {
	var read bytes.Buffer
	h, _, _, err = readHeader(newBlockReader(io.TeeReader(r, &read)))
	if err != nil {
		return h, nil, fmt.Errorf("snapshot: %w", err)
	}
	return h, io.MultiReader(&read, r), nil
}

// Stream reads a snapshot of any known version without building a machine from it: its header, then
// its transactions, one after the other; client sessions are skipped. The stream must end with the
// snapshot. A fault ends the transactions as their last error, wrapped as that of [ReadHeader]; a
// caller that has received none has read the whole snapshot, and knows that it is unchanged. The
// yielded value is reused.
func Stream(r io.Reader) (machine.Header, iter.Seq2[*machine.Transaction, error], error) {
	h, sessions, txs, err := stream(r)
	if err != nil {
		return h, nil, err
	}
	return h, func(yield func(*machine.Transaction, error) bool) {
		for _, err := range sessions {
			if err != nil {
				yield(nil, err)
				return
			}
		}
		txs(yield)
	}, nil
}

// stream is Stream with the sessions, all of which must be read before the transactions.
func stream(r io.Reader) (h machine.Header, sessions iter.Seq2[*machine.Session, error], txs iter.Seq2[*machine.Transaction, error], err error) {
	b := newBlockReader(r)
	h, version, err := readPreamble(b)
	if err != nil {
		return h, nil, nil, fmt.Errorf("snapshot: %w", err)
	}
	return h, readSessions(b, h.Sessions), readTransactions(b, version), nil
}

// CopyAsNewIncarnation copies a snapshot of any known version from src, which must end with it, to
// dst, in version 7 and as the beginning of the next incarnation of its cluster: with recovery paused until an
// operator resumes it, with the mark of [machine.Transaction.MarkRestored], and without nodes, neither
// members nor removed ones: nodes of the old incarnation are recognized by its number. It keeps one block
// in memory, however much there is to copy.
//
// After an error dst holds a part without an end, which cannot be restored. The error wraps
// [ErrCorrupt], [ErrUnknownVersion], [ErrUnknownKind] or [ErrOtherGroup] when the bytes are at fault.
func CopyAsNewIncarnation(dst io.Writer, src io.Reader) error {
	h, sessions, txs, err := stream(src)
	if err != nil {
		return err
	}
	h.Incarnation++
	h.RecoveryPaused, h.Members, h.Removed = true, nil, nil
	if err := writeSnapshot(dst, restoredVersion, h, sessions, marked(txs)); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	return nil
}

// marked marks the transactions of a backup.
func marked(txs iter.Seq2[*machine.Transaction, error]) iter.Seq2[*machine.Transaction, error] {
	return func(yield func(*machine.Transaction, error) bool) {
		txs(func(t *machine.Transaction, err error) bool {
			if err == nil {
				t.MarkRestored()
			}
			return yield(t, err)
		})
	}
}
