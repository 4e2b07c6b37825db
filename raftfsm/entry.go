package raftfsm

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn/machine"
)

const (
	// EntryVersion is the first byte of the entries that this release writes.
	EntryVersion = 1
	// HeaderSize is how many bytes of an entry precede its first command.
	HeaderSize = 25
	// MaxEntry is the largest entry, in bytes. The node closes a batch long before; it must only
	// check that a single command does not exceed MaxEntry - HeaderSize.
	MaxEntry = 4 << 20

	offsetSum   = 1
	offsetTick  = 5
	offsetWall  = 13
	offsetCount = 21
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendHeader appends space for an entry's header to dst and returns the extended buffer. Encoded
// commands follow, then [FinishEntry].
func AppendHeader(dst []byte) []byte {
	var room [HeaderSize]byte
	return append(dst, room[:]...)
}

// FinishEntry turns buf into an entry, in place: a header made by [AppendHeader], followed by count
// encoded commands, which may be none. From now on buf belongs to raft and to those that decode it,
// and must not be written.
//
// tick is the leader's tick, wall its wall clock in milliseconds since 1970.
//
// The error wraps [ErrTooLarge]; then buf is not an entry.
func FinishEntry(buf []byte, tick survival.Tick, wall int64, count int) error {
	if len(buf) < HeaderSize || len(buf) > MaxEntry || count < 0 || count > (len(buf)-HeaderSize)/minCommand {
		return fmt.Errorf("seal a log entry: %w: %d commands in %d bytes; at most %d bytes, header included", ErrTooLarge, count, len(buf), MaxEntry)
	}
	buf[0] = EntryVersion
	binary.LittleEndian.PutUint64(buf[offsetTick:], uint64(tick))
	binary.LittleEndian.PutUint64(buf[offsetWall:], uint64(wall))
	binary.LittleEndian.PutUint32(buf[offsetCount:], uint32(count))
	binary.LittleEndian.PutUint32(buf[offsetSum:], crc32.Checksum(buf[offsetTick:], castagnoli))
	return nil
}

// EncodeEntry encodes a whole entry. The node's proposal queue does the same step by step, with
// [AppendHeader], [AppendCommand] and [FinishEntry].
//
// The error wraps [ErrTooLarge].
func EncodeEntry(e machine.Entry) ([]byte, error) {
	buf := AppendHeader(nil)
	for _, c := range e.Commands {
		buf = AppendCommand(buf, c)
	}
	if err := FinishEntry(buf, e.Tick, e.Wall, len(e.Commands)); err != nil {
		return nil, err
	}
	return buf, nil
}

// DecodeEntry is the inverse of [EncodeEntry]; empty slices and maps come back as nil.
//
// The entry refers to data, which must not change as long as the entry is in use, and its strings
// share one copy of data: to retain a part of the entry, clone it. The entry takes at most about
// thirty times the memory of data, whatever data holds.
//
// The error wraps [ErrCorrupt], [ErrUnknownVersion] or [ErrUnknownKind].
func DecodeEntry(data []byte) (machine.Entry, error) {
	switch {
	case len(data) == 0:
		return machine.Entry{}, fmt.Errorf("%w: it is empty", ErrCorrupt)
	case data[0] > EntryVersion:
		return machine.Entry{}, fmt.Errorf("%w: version %d, the newest known here is %d: this node is older than what it reads; upgrade it", ErrUnknownVersion, data[0], EntryVersion)
	case data[0] < EntryVersion:
		return machine.Entry{}, fmt.Errorf("%w: there is no version %d", ErrCorrupt, data[0])
	case len(data) < HeaderSize || len(data) > MaxEntry:
		return machine.Entry{}, fmt.Errorf("%w: %d bytes; want %d to %d", ErrCorrupt, len(data), HeaderSize, MaxEntry)
	}
	if got, want := crc32.Checksum(data[offsetTick:], castagnoli), binary.LittleEndian.Uint32(data[offsetSum:]); got != want {
		return machine.Entry{}, fmt.Errorf("%w: its checksum is %08x; want %08x", ErrCorrupt, got, want)
	}
	return decodeBody(data)
}

// decodeBody decodes an entry whose version and checksum are valid.
func decodeBody(data []byte) (machine.Entry, error) {
	e := machine.Entry{
		Tick: survival.Tick(binary.LittleEndian.Uint64(data[offsetTick:])),
		Wall: int64(binary.LittleEndian.Uint64(data[offsetWall:])),
	}
	count := binary.LittleEndian.Uint32(data[offsetCount:])
	r := commandReader{reader: newReader(data)}
	r.at = HeaderSize
	if uint64(count)*minCommand > uint64(r.remaining()) {
		r.fail("%d commands cannot fit the %d bytes that are left", count, r.remaining())
		return machine.Entry{}, r.err
	}
	if count > 0 {
		e.Commands = make([]machine.Command, 0, count)
	}
	for i := range count {
		c := r.command()
		if r.err != nil {
			return machine.Entry{}, fmt.Errorf("command %d of %d: %w", i+1, count, r.err)
		}
		e.Commands = append(e.Commands, c)
	}
	if err := r.end(); err != nil {
		return machine.Entry{}, err
	}
	return e, nil
}
