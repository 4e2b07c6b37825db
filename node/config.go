package node

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn"
)

// Config is what [Open] needs. Only DataDir has no default.
type Config struct {
	// DataDir is where the log and its snapshots live. It is made when missing,
	// and belongs to one process at a time.
	DataDir string
	// Interval is the time between two invocations of the timeout thread, fixed
	// for ever when the data directory is new; later it may be left zero and must
	// otherwise be the same. From 1ms to 1m. Defaults to 100ms.
	Interval time.Duration
	// Retention is how long finished outcomes are kept, and Retain how many of
	// them at most. Fixed as Interval is. Default to 1h and 1,000,000.
	Retention time.Duration
	Retain    uint64
	// Checkpoint is the most time that a restart may lose to a deadline, apart
	// from the downtime: while transactions are open an entry is written at least
	// so often. Defaults to 10s.
	Checkpoint time.Duration
	// DefaultTimeout is for transactions that name none. Defaults to 30s.
	DefaultTimeout time.Duration
	// MaxTimeout is the longest that may be asked for. Defaults to 24h.
	MaxTimeout time.Duration
	// MaxOpen is how many transactions may be unfinished at once; more are
	// refused as unavailable. Defaults to 4,000,000.
	MaxOpen int
	// SnapshotBytes is how much log, in bytes, a restart may have to replay; then
	// a snapshot is taken, or after as much log as the last snapshot was long, if
	// that is more. Defaults to 64 MiB.
	SnapshotBytes uint64
	// Openers make participants of registrations, by kind.
	Openers map[string]participant.Opener
	// Participants are embedded in this process, by name; they are registered as
	// kind "embedded".
	Participants map[string]participant.Participant
	// Recovery tunes phase two and the sweep. Its zero value is right for most.
	Recovery recovery.Config
	// Logger receives what operators should see. Defaults to slog.Default().
	Logger *slog.Logger
	// OnFailure is called once when the log can no longer be trusted. Defaults to
	// logging the error and ending the process with exit code 1.
	OnFailure func(error)

	trailing uint64           // entries that stay behind a snapshot, for tests; 0 means trailingEntries
	wall     func() time.Time // the wall clock, for tests; nil means time.Now
}

func (c Config) withDefaults() (Config, error) {
	if c.DataDir == "" {
		return c, fmt.Errorf("%w: no data directory given", txn.ErrInvalid)
	}
	if c.Interval != 0 && (c.Interval < time.Millisecond || c.Interval > time.Minute) {
		return c, fmt.Errorf("%w: interval %v: want 1ms to 1m", txn.ErrInvalid, c.Interval)
	}
	for _, d := range []struct {
		name string
		v    *time.Duration
		def  time.Duration
	}{
		{"retention", &c.Retention, 0},
		{"checkpoint", &c.Checkpoint, 10 * time.Second},
		{"default timeout", &c.DefaultTimeout, txn.DefaultTimeout},
		{"maximum timeout", &c.MaxTimeout, 24 * time.Hour},
	} {
		if *d.v < 0 {
			return c, fmt.Errorf("%w: %s %v is negative", txn.ErrInvalid, d.name, *d.v)
		}
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if c.MaxOpen == 0 {
		c.MaxOpen = 4_000_000
	}
	if c.SnapshotBytes == 0 {
		c.SnapshotBytes = 64 << 20
	}
	if c.trailing == 0 {
		c.trailing = trailingEntries
	}
	if c.wall == nil {
		c.wall = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.OnFailure == nil {
		logger := c.Logger
		c.OnFailure = func(err error) {
			logger.Error("the log failed: stopping, so that nothing is acknowledged that may be lost", "error", err)
			os.Exit(1)
		}
	}
	return c, nil
}
