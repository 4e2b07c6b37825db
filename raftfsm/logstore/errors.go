package logstore

import (
	"errors"
	"fmt"
	"strings"
)

// Opening.
var (
	// ErrInUse: another process, or another Store of this process, holds the lock on the file.
	ErrInUse = errors.New("data directory is in use by another process")

	// ErrNotLogStore: the file exists and is not a log store. Nothing was changed.
	ErrNotLogStore = errors.New("not a txmgr log store")

	// ErrVersion: the file was written in a format this program does not know. Nothing was changed.
	ErrVersion = errors.New("log store has an unknown format version")
)

// Using.
var (
	// ErrCorrupt: stored bytes are not the bytes that were written. Every such error is a [*CorruptError].
	ErrCorrupt = errors.New("log store is corrupt")

	// ErrFailed: an earlier write or read failed and the store has stopped for good (see the package
	// documentation).
	ErrFailed = errors.New("log store has failed")

	// ErrClosed: the store was closed.
	ErrClosed = errors.New("log store is closed")

	// ErrOutOfOrder: entries that are not consecutive, or that would overwrite stored ones. Nothing was stored.
	ErrOutOfOrder = errors.New("log entries are out of order")

	// ErrLimit: an entry, key or value beyond the limits of the package. Nothing was stored.
	ErrLimit = errors.New("beyond the limits of the log store")

	// ErrKeyNotFound is what Get and GetUint64 return for a key that has no value. raft compares the text, so
	// it is returned as it is, never wrapped.
	ErrKeyNotFound = errors.New("not found")
)

// CorruptError reports where the damage is. It matches [ErrCorrupt].
type CorruptError struct {
	File   string // path of the file
	Offset int64  // in the file; 0 when it is not one place
	Key    string // "index 17" for a log entry, the quoted key otherwise, or ""
	Reason string // what is wrong there
}

// Error names the file, the place and the remedy.
func (e *CorruptError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %s: ", ErrCorrupt, e.File)
	if e.Offset != 0 {
		fmt.Fprintf(&b, "offset %d: ", e.Offset)
	}
	if e.Key != "" {
		fmt.Fprintf(&b, "%s: ", e.Key)
	}
	b.WriteString(e.Reason)
	b.WriteString("; the node must not run on it: let it rejoin the cluster with an empty data directory, or restore a backup")
	return b.String()
}

// Is reports whether target is [ErrCorrupt].
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// failure is the first error of a store, which every later call repeats. It matches [ErrFailed] and its cause.
type failure struct {
	op    string
	cause error
}

func (f *failure) Error() string {
	return fmt.Sprintf("%v while it tried to %s: %v; stop this process and start it again", ErrFailed, f.op, f.cause)
}

func (f *failure) Unwrap() []error { return []error{ErrFailed, f.cause} }
