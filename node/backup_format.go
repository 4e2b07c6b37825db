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
	"github.com/txmgr/txmgr/txn/admin"
)

// A backup is one file, or stream:
//
//	8 bytes   "txmgrbk" and the version of the format
//	4 bytes   length of the description, little-endian
//	          the description, see backupHeader, as JSON
//	          a snapshot of the state, as package raftfsm writes it
//	32 bytes  SHA-256 of everything before
const (
	backupMagic     = "txmgrbk"
	backupVersion   = 1
	maxBackupHeader = 64 << 10
)

// ErrBadBackup: a file is not a backup, or is damaged.
var ErrBadBackup = fmt.Errorf("%w: this is no backup, or a damaged one", txn.ErrInvalid)

// backupHeader is the description at the beginning of a backup.
type backupHeader struct {
	Cluster     string    `json:"cluster"`
	Incarnation uint64    `json:"incarnation"`
	Index       uint64    `json:"index"`
	Term        uint64    `json:"term"`
	Tick        uint64    `json:"tick"`
	Taken       time.Time `json:"taken"`
	Release     string    `json:"release"`        // the release that wrote it
	Snapshot    int64     `json:"snapshot_bytes"` // length of the snapshot
}

func (h *backupHeader) show(size int64, sum []byte) admin.Backup {
	return admin.Backup{
		Cluster: h.Cluster, Incarnation: h.Incarnation, Index: h.Index, Term: h.Term, Tick: h.Tick,
		Taken: h.Taken, Bytes: size, SHA256: hex.EncodeToString(sum),
	}
}

// writeBackup writes a backup of a snapshot, which has header.Snapshot bytes.
func writeBackup(w io.Writer, header backupHeader, snapshot io.Reader) (b admin.Backup, err error) {
	text, err := json.Marshal(header)
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
	case n != header.Snapshot:
		return b, fmt.Errorf("writing the backup: the snapshot has %d bytes; want %d", n, header.Snapshot)
	}
	end := sum.Sum(nil)
	if _, err := both.Write(end); err != nil {
		return b, fmt.Errorf("writing the backup: %w", err)
	}
	return header.show(int64(len(begin))+n+int64(len(end)), sum.Sum(nil)), nil
}

// backupReader reads a backup. The caller reads the snapshot, then calls finish, and trusts
// nothing of what was read unless finish returns nil.
type backupReader struct {
	header   backupHeader
	snapshot io.Reader // checked against header; ends where the snapshot ends
	from     io.Reader // reads raw and adds what it has read to sum
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
	case version == 0 || length > maxBackupHeader:
		return nil, fmt.Errorf("%w: version %d, with a description of %d bytes", ErrBadBackup, version, length)
	}
	text := make([]byte, length)
	if err := b.read(text); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &b.header); err != nil {
		return nil, fmt.Errorf("%w: its description: %w", ErrBadBackup, err)
	}
	if h := &b.header; h.Index == 0 || h.Term == 0 || h.Snapshot <= 0 || !txn.ValidClusterID(h.Cluster) {
		return nil, fmt.Errorf("%w: its description: %.200s", ErrBadBackup, text)
	}
	b.size = int64(len(begin)+len(text)) + b.header.Snapshot + sha256.Size
	return b, b.check()
}

func (b *backupReader) read(p []byte) error {
	if _, err := io.ReadFull(b.from, p); err != nil {
		return backupError(err)
	}
	return nil
}

// check verifies that the description matches the state.
func (b *backupReader) check() error {
	state, whole, err := raftfsm.ReadHeader(io.LimitReader(b.from, b.header.Snapshot))
	if err != nil {
		return backupError(err)
	}
	if h := &b.header; state.Bootstrap.Cluster != h.Cluster || state.Incarnation != h.Incarnation || uint64(state.Tick) != h.Tick {
		return fmt.Errorf("%w: described as cluster %s, incarnation %d, tick %d; its state is that of %s, %d, %d", ErrBadBackup,
			h.Cluster, h.Incarnation, h.Tick, state.Bootstrap.Cluster, state.Incarnation, state.Tick)
	}
	b.snapshot = whole
	return nil
}

// finish verifies the checksum, and that nothing follows the backup.
func (b *backupReader) finish() (admin.Backup, error) {
	if n, err := io.Copy(io.Discard, b.snapshot); n > 0 || err != nil {
		return admin.Backup{}, fmt.Errorf("%w: %d bytes behind the state (%w)", ErrBadBackup, n, err)
	}
	want := b.sum.Sum(nil)
	got := make([]byte, sha256.Size)
	if err := b.read(got); err != nil {
		return admin.Backup{}, err
	}
	if !bytes.Equal(got, want) {
		return admin.Backup{}, fmt.Errorf("%w: its SHA-256 is %x; want %x", ErrBadBackup, want, got)
	}
	switch _, err := io.ReadFull(b.raw, make([]byte, 1)); {
	case err == nil:
		return admin.Backup{}, fmt.Errorf("%w: more bytes stand behind its end", ErrBadBackup)
	case !errors.Is(err, io.EOF):
		return admin.Backup{}, fmt.Errorf("reading the backup: %w", err)
	}
	return b.header.show(b.size, b.sum.Sum(nil)), nil
}

// backupError distinguishes an error of the backup's content from an error of reading it.
func backupError(err error) error {
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
