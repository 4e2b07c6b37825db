package raftfsm

import (
	"encoding/binary"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/txn"
)

// ErrTermMismatch: the entry was stamped in one term and written in another. Its tick, and
// the deadlines in it, are of another leader's count, so no replica applies it. Comes with
// [txn.ErrUnavailable]: nothing was done.
var ErrTermMismatch = fmt.Errorf("%w: the entry was stamped in another term than it was written in", txn.ErrUnavailable)

// WithTerm returns a finished entry for raft, with the term of the leader that stamped it beside
// it. raft may hold an entry back until its node has lost the term and won another one.
func WithTerm(entry []byte, term uint64) raft.Log {
	return raft.Log{Data: entry, Extensions: binary.LittleEndian.AppendUint64(nil, term)}
}

// termMismatch reports whether an entry was written in another term than it was stamped in.
// Entries of earlier releases do not record the term in which they were stamped.
func termMismatch(l *raft.Log) bool {
	return len(l.Extensions) == 8 && binary.LittleEndian.Uint64(l.Extensions) != l.Term
}
