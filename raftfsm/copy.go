package raftfsm

import (
	"bytes"
	"fmt"
	"io"
	"iter"

	"github.com/txmgr/txmgr/txn/machine"
)

// ReadHeader reads the header of a snapshot of any known version, all but its audit trail,
// and gives it with a reader of the whole: what was read, then the rest of r.
//
// The error wraps [ErrCorrupt], [ErrUnknownVersion] or [ErrUnknownKind] when the
// bytes are at fault.
func ReadHeader(r io.Reader) (h machine.Header, whole io.Reader, err error) {
	var read bytes.Buffer
	h, _, _, err = readHeader(newBlockReader(io.TeeReader(r, &read)))
	if err != nil {
		return h, nil, fmt.Errorf("snapshot: %w", err)
	}
	return h, io.MultiReader(&read, r), nil
}

// Stream reads a snapshot of any known version without making a machine of it: its
// header, then its transactions, one after the other; its clients' sessions are read over. The stream has to end with the
// snapshot. A fault ends the transactions as their last error, wrapped as that of
// [ReadHeader]; whoever has met none has read the whole and knows that it is what was
// written. The yielded value is used again.
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

// stream is Scan with the sessions, all of which have to be read before the transactions.
func stream(r io.Reader) (h machine.Header, sessions iter.Seq2[*machine.Session, error], txs iter.Seq2[*machine.Transaction, error], err error) {
	b := newBlockReader(r)
	h, version, err := readPreamble(b)
	if err != nil {
		return h, nil, nil, fmt.Errorf("snapshot: %w", err)
	}
	return h, readSessions(b, h.Sessions), readTransactions(b, version), nil
}

// CopyAsNewIncarnation copies a snapshot of any known version from src, which has to end with
// it, to dst, in the newest version and as the beginning of the next life of its
// cluster: with the next incarnation, held until somebody resumes it, and without
// nodes, neither members nor removed ones: a node of the old life is known by its
// incarnation. It keeps a block in memory, whatever there is to copy.
//
// With an error, dst got a part, without an end, which nobody restores. It wraps
// [ErrCorrupt], [ErrUnknownVersion] or [ErrUnknownKind] when the bytes are at fault.
func CopyAsNewIncarnation(dst io.Writer, src io.Reader) error {
	h, sessions, txs, err := stream(src)
	if err != nil {
		return err
	}
	h.Incarnation++
	h.RecoveryPaused, h.Members, h.Removed = true, nil, nil
	if err := writeSnapshot(dst, h, sessions, txs); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	return nil
}
