// Package backup is the file of a backup: [Write] writes it, [Inspect] verifies it and says what is in
// it, and [Restore] writes the data directory of a new cluster's first node from it. The last two need
// no running node.
package backup

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// A backup is one file, or stream:
//
//	8 bytes   "txmgrbk" and the version of the format
//	4 bytes   length of the description, little-endian
//	          the description, see Header, as JSON
//	          a snapshot of the state, as package raftfsm writes it
//	32 bytes  SHA-256 of everything before
const (
	magic     = "txmgrbk"
	version   = 1
	maxHeader = 64 << 10
)

// ErrDamaged: a file is not a backup, or is damaged.
var ErrDamaged = fmt.Errorf("%w: this is no backup, or a damaged one", txn.ErrInvalid)

// Header is the description at the beginning of a backup.
type Header struct {
	Cluster     string    `json:"cluster"`
	Incarnation uint64    `json:"incarnation"`
	Index       uint64    `json:"index"`
	Term        uint64    `json:"term"`
	Tick        uint64    `json:"tick"`
	Taken       time.Time `json:"taken"`
	Release     string    `json:"release"`        // the release that wrote it
	Snapshot    int64     `json:"snapshot_bytes"` // length of the snapshot
}

func (h *Header) show(size int64, sum []byte) admin.Backup {
	return admin.Backup{
		Cluster: h.Cluster, Incarnation: h.Incarnation, Index: h.Index, Term: h.Term, Tick: h.Tick,
		Taken: h.Taken, Bytes: size, SHA256: hex.EncodeToString(sum),
	}
}
