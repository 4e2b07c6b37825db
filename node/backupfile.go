package node

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/txn"
)

// A backup is one file, or stream:
//
//	8 bytes   "txmgrbk" and the version of the format
//	4 bytes   length of the description, little-endian
//	          the description, see backupHead, as JSON
//	          a snapshot of the state, as package raftfsm writes it
//	32 bytes  SHA-256 of everything before
const (
	backupMagic   = "txmgrbk"
	backupVersion = 1
	maxBackupHead = 64 << 10
)

// ErrBadBackup: a file is no backup, or not as it was written.
var ErrBadBackup = fmt.Errorf("%w: this is no backup, or a damaged one", txn.ErrInvalid)

// backupHead describes a backup, in its beginning.
type backupHead struct {
	Cluster     string    `json:"cluster"`
	Incarnation uint64    `json:"incarnation"`
	Index       uint64    `json:"index"`
	Term        uint64    `json:"term"`
	Tick        uint64    `json:"tick"`
	Taken       time.Time `json:"taken"`
	Release     string    `json:"release"`        // that wrote it
	Snapshot    int64     `json:"snapshot_bytes"` // its length
}

func (h *backupHead) show(size int64, sum []byte) txn.Backup {
	return txn.Backup{
		Cluster: h.Cluster, Incarnation: h.Incarnation, Index: h.Index, Term: h.Term, Tick: h.Tick,
		Taken: h.Taken, Bytes: size, SHA256: hex.EncodeToString(sum),
	}
}

// writeBackup writes what a snapshot, of head.Snapshot bytes, has to have around it.
func writeBackup(w io.Writer, head backupHead, snapshot io.Reader) (b txn.Backup, err error) {
	text, err := json.Marshal(head)
	if err != nil {
		return b, err
	}
	sum := sha256.New()
	both := io.MultiWriter(w, sum)
	begin := append([]byte(backupMagic), backupVersion)
	begin = append(binary.LittleEndian.AppendUint32(begin, uint32(len(text))), text...)
	if _, err := both.Write(begin); err != nil {
		return b, fmt.Errorf("writing the backup: %w", err)
	}
	n, err := io.Copy(both, snapshot)
	switch {
	case err != nil:
		return b, fmt.Errorf("writing the backup: %w", err)
	case n != head.Snapshot:
		return b, fmt.Errorf("writing the backup: the snapshot has %d bytes; want %d", n, head.Snapshot)
	}
	end := sum.Sum(nil)
	if _, err := both.Write(end); err != nil {
		return b, fmt.Errorf("writing the backup: %w", err)
	}
	return head.show(int64(len(begin))+n+int64(len(end)), sum.Sum(nil)), nil
}

// backupReader takes a backup apart. Whoever has read the snapshot calls end, and
// trusts nothing before that has answered nil.
type backupReader struct {
	head     backupHead
	snapshot io.Reader // checked against head, and at its end where the snapshot ends
	from     io.Reader // everything, on its way to sum
	raw      io.Reader
	sum      hash.Hash
	size     int64
}

func openBackup(r io.Reader) (*backupReader, error) {
	b := &backupReader{raw: r, sum: sha256.New()}
	b.from = io.TeeReader(r, b.sum)
	begin := make([]byte, len(backupMagic)+1+4)
	if err := b.read(begin); err != nil {
		return nil, err
	}
	version, length := begin[len(backupMagic)], binary.LittleEndian.Uint32(begin[len(backupMagic)+1:])
	switch {
	case string(begin[:len(backupMagic)]) != backupMagic:
		return nil, fmt.Errorf("%w: it begins with %q", ErrBadBackup, begin[:len(backupMagic)])
	case version > backupVersion:
		return nil, fmt.Errorf("%w: a backup of version %d, the newest known here is %d: use the release that wrote it, or a newer one", txn.ErrInvalid, version, backupVersion)
	case version == 0 || length > maxBackupHead:
		return nil, fmt.Errorf("%w: version %d, with a description of %d bytes", ErrBadBackup, version, length)
	}
	text := make([]byte, length)
	if err := b.read(text); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &b.head); err != nil {
		return nil, fmt.Errorf("%w: its description: %w", ErrBadBackup, err)
	}
	if h := &b.head; h.Index == 0 || h.Term == 0 || h.Snapshot <= 0 || !txn.ValidCluster(h.Cluster) {
		return nil, fmt.Errorf("%w: its description: %.200s", ErrBadBackup, text)
	}
	b.size = int64(len(begin)+len(text)) + b.head.Snapshot + sha256.Size
	return b, b.look()
}

func (b *backupReader) read(p []byte) error {
	if _, err := io.ReadFull(b.from, p); err != nil {
		return badBackup(err)
	}
	return nil
}

// look compares the description with the state.
func (b *backupReader) look() error {
	state, whole, err := raftfsm.Peek(io.LimitReader(b.from, b.head.Snapshot))
	if err != nil {
		return badBackup(err)
	}
	if h := &b.head; state.Bootstrap.Cluster != h.Cluster || state.Incarnation != h.Incarnation || uint64(state.Tick) != h.Tick {
		return fmt.Errorf("%w: described as cluster %s, incarnation %d, tick %d; its state is that of %s, %d, %d", ErrBadBackup,
			h.Cluster, h.Incarnation, h.Tick, state.Bootstrap.Cluster, state.Incarnation, state.Tick)
	}
	b.snapshot = whole
	return nil
}

// end checks that the whole is what was written.
func (b *backupReader) end() (txn.Backup, error) {
	if n, err := io.Copy(io.Discard, b.snapshot); n > 0 || err != nil {
		return txn.Backup{}, fmt.Errorf("%w: %d bytes behind the state (%w)", ErrBadBackup, n, err)
	}
	want := b.sum.Sum(nil)
	got := make([]byte, sha256.Size)
	if err := b.read(got); err != nil {
		return txn.Backup{}, err
	}
	if !bytes.Equal(got, want) {
		return txn.Backup{}, fmt.Errorf("%w: its SHA-256 is %x; want %x", ErrBadBackup, want, got)
	}
	switch _, err := io.ReadFull(b.raw, make([]byte, 1)); {
	case err == nil:
		return txn.Backup{}, fmt.Errorf("%w: more bytes stand behind its end", ErrBadBackup)
	case !errors.Is(err, io.EOF):
		return txn.Backup{}, fmt.Errorf("reading the backup: %w", err)
	}
	return b.head.show(b.size, b.sum.Sum(nil)), nil
}

// badBackup tells what the bytes are at fault for from what the medium is.
func badBackup(err error) error {
	switch {
	case errors.Is(err, raftfsm.ErrUnknownVersion), errors.Is(err, raftfsm.ErrUnknownKind):
		return fmt.Errorf("%w: %w", txn.ErrInvalid, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it is cut short", ErrBadBackup)
	case errors.Is(err, raftfsm.ErrCorrupt):
		return fmt.Errorf("%w: %w", ErrBadBackup, err)
	}
	return fmt.Errorf("reading the backup: %w", err)
}
