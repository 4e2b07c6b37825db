package wal

import (
	"errors"
	"fmt"
)

var (
	// ErrCorrupt: stored bytes are not the bytes that were written. Every such error is a [*CorruptError].
	ErrCorrupt = errors.New("log is corrupt")

	// ErrNotLog: a file of the directory is not a log of this program. Nothing was changed.
	ErrNotLog = errors.New("not a txmgr log")

	// ErrVersion: the log was written in a format that this program does not know. Nothing was changed.
	ErrVersion = errors.New("log has an unknown format version")
)

// CorruptError says where the damage is. It matches [ErrCorrupt].
type CorruptError struct {
	File   string // path of the segment
	Offset int64  // of the frame, 0 for the whole file
	Reason string
}

// Error names the file and the place.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%v: %s, offset %d: %s", ErrCorrupt, e.File, e.Offset, e.Reason)
}

// Is reports whether target is [ErrCorrupt].
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }
