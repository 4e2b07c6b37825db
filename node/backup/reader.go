package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// reader reads a backup. The caller reads the snapshot, then calls finish, and trusts
// nothing of what was read unless finish returns nil.
type reader struct {
	header   Header
	snapshot io.Reader // checked against header; ends where the snapshot ends
	from     io.Reader // reads raw and adds what it has read to sum
	raw      io.Reader
	sum      hash.Hash
	size     int64
}

func openReader(r io.Reader) (*reader, error) {
	b := &reader{raw: r, sum: sha256.New()}
	b.from = io.TeeReader(r, b.sum)
	begin := make([]byte, len(magic)+1+4)
	if err := b.read(begin); err != nil {
		return nil, err
	}
	made, length := begin[len(magic)], binary.LittleEndian.Uint32(begin[len(magic)+1:])
	switch {
	case string(begin[:len(magic)]) != magic:
		return nil, fmt.Errorf("%w: it begins with %q", ErrDamaged, begin[:len(magic)])
	case made > version:
		return nil, fmt.Errorf("%w: a backup of version %d, the newest known here is %d: use the release that wrote it, or a newer one", txn.ErrInvalid, made, version)
	case made == 0 || length > maxHeader:
		return nil, fmt.Errorf("%w: version %d, with a description of %d bytes", ErrDamaged, made, length)
	}
	text := make([]byte, length)
	if err := b.read(text); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &b.header); err != nil {
		return nil, fmt.Errorf("%w: its description: %w", ErrDamaged, err)
	}
	if h := &b.header; h.Index == 0 || h.Term == 0 || h.Snapshot <= 0 || !txn.ValidClusterID(h.Cluster) {
		return nil, fmt.Errorf("%w: its description: %.200s", ErrDamaged, text)
	}
	b.size = int64(len(begin)+len(text)) + b.header.Snapshot + sha256.Size
	return b, b.check()
}

func (b *reader) read(p []byte) error {
	if _, err := io.ReadFull(b.from, p); err != nil {
		return readError(err)
	}
	return nil
}

// check verifies that the description matches the state.
func (b *reader) check() error {
	state, whole, err := raftfsm.ReadHeader(io.LimitReader(b.from, b.header.Snapshot))
	if err != nil {
		return readError(err)
	}
	if h := &b.header; state.Bootstrap.Cluster != h.Cluster || state.Incarnation != h.Incarnation || uint64(state.Tick) != h.Tick {
		return fmt.Errorf("%w: described as cluster %s, incarnation %d, tick %d; its state is that of %s, %d, %d", ErrDamaged,
			h.Cluster, h.Incarnation, h.Tick, state.Bootstrap.Cluster, state.Incarnation, state.Tick)
	}
	b.snapshot = whole
	return nil
}

// finish verifies the checksum, and that nothing follows the backup.
func (b *reader) finish() (admin.Backup, error) {
	if n, err := io.Copy(io.Discard, b.snapshot); n > 0 || err != nil {
		return admin.Backup{}, fmt.Errorf("%w: %d bytes behind the state (%w)", ErrDamaged, n, err)
	}
	want := b.sum.Sum(nil)
	got := make([]byte, sha256.Size)
	if err := b.read(got); err != nil {
		return admin.Backup{}, err
	}
	if !bytes.Equal(got, want) {
		return admin.Backup{}, fmt.Errorf("%w: its SHA-256 is %x; want %x", ErrDamaged, want, got)
	}
	switch _, err := io.ReadFull(b.raw, make([]byte, 1)); {
	case err == nil:
		return admin.Backup{}, fmt.Errorf("%w: more bytes stand behind its end", ErrDamaged)
	case !errors.Is(err, io.EOF):
		return admin.Backup{}, fmt.Errorf("reading the backup: %w", err)
	}
	return b.header.show(b.size, b.sum.Sum(nil)), nil
}

// readError distinguishes an error of the backup's content from an error of reading it.
func readError(err error) error {
	switch {
	case errors.Is(err, raftfsm.ErrUnknownVersion), errors.Is(err, raftfsm.ErrUnknownKind), errors.Is(err, raftfsm.ErrOtherGroup):
		return fmt.Errorf("%w: %w", txn.ErrInvalid, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it is cut short", ErrDamaged)
	case errors.Is(err, raftfsm.ErrCorrupt):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return fmt.Errorf("reading the backup: %w", err)
}
