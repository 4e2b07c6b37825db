package node

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/txmgr/txmgr/internal/certs"
	"github.com/txmgr/txmgr/internal/simenv"
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
	// Retention is how long finished outcomes are kept; up to 1/120 of it longer, since
	// those fall off together that have finished in the same 240th of it, or in the same
	// 15s if that is less. Of more than Retain the oldest are dropped before, as long as
	// Retain are left. Fixed as Interval is. Default to 1h and 1,000,000.
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
	// a snapshot is taken, on every node, or after as much log as the last snapshot was
	// long, if that is more. What stays of the log behind a snapshot is as much, or what the
	// snapshot before it would need. Defaults to 64 MiB.
	SnapshotBytes uint64
	// Drivers make participants of registrations, by kind.
	Drivers map[string]participant.Driver
	// Participants are embedded in this process, by name; they are registered as
	// kind "embedded".
	Participants map[string]participant.Participant
	// Cluster makes this node one of several. Nil: it is alone.
	Cluster *Cluster
	// SimEnv is ground of the simulation, instead of DataDir and Cluster.
	SimEnv *simenv.Env
	// Recovery tunes phase two and the sweep. Its zero value is right for most.
	Recovery recovery.Config
	// Logger receives what operators should see, by a queue: nothing waits for it. Defaults to
	// slog.Default().
	Logger *slog.Logger
	// OnFailure is called once when the log can no longer be trusted, or stands still so that only
	// the end of the process helps. It must not call the node. Defaults to logging the error and
	// ending the process with exit code 1.
	OnFailure func(error)

	trailingLogs uint64           // entries that raft leaves behind a snapshot, for tests; 0 means all: the node cuts the log by bytes
	wall         func() time.Time // the wall clock, for tests; nil means time.Now
	monotonic    func() time.Time // the clock that counts ticks, for tests; nil means time.Now, which is monotonic
}

// Cluster is how a node finds the others, and they it. Every field but Listen may be
// zero.
type Cluster struct {
	// Listen is the address for the other nodes, for example 10.0.0.1:7461.
	Listen string
	// Advertise is the address at which they reach it; defaults to Listen's.
	Advertise string
	// API is the URL at which clients, and nodes that forward calls, reach this
	// node's server.
	API string
	// Name is for people; defaults to the host's name.
	Name string
	// Expect is how many nodes form a new cluster together: they wait for one another
	// at the addresses in Join. 0 and 1: none waits.
	Expect int
	// Join are addresses of other nodes, own ones included or not. A node with an
	// empty log asks them to be added, when they have a cluster already.
	Join []string
	// CertFile, KeyFile and CAFile are PEM files of mutual TLS between the nodes, all
	// three or none. They are read again when they change. The certificate has to say
	// that it is a peer's, and of which cluster: txmgr config init makes such.
	CertFile, KeyFile, CAFile string
	// Insecure allows to listen beyond loopback without TLS.
	Insecure bool
}

// Defaults of a [Config]; that of DefaultTimeout is [txn.DefaultTimeout].
const (
	DefaultInterval      = 100 * time.Millisecond
	DefaultRetention     = time.Hour
	DefaultMaxTimeout    = 24 * time.Hour
	DefaultSnapshotBytes = 64 << 20
	DefaultSweepEvery    = recovery.DefaultSweepEvery
)

// ParseOptimizer reads a choice for [Config].Recovery: knee, throughput, mean, p99, or
// fixed:N. It wraps [txn.ErrInvalid] if it is none.
func ParseOptimizer(text string) (recovery.OptimizerSpec, error) {
	return recovery.ParseOptimizer(text)
}

func (c Config) withDefaults() (Config, error) {
	if c.SimEnv != nil && c.SimEnv.Wall != nil {
		c.wall = c.SimEnv.Wall
	}
	if c.SimEnv != nil && c.SimEnv.Monotonic != nil {
		c.monotonic = c.SimEnv.Monotonic
	}
	if c.DataDir == "" && c.SimEnv == nil {
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
		{"maximum timeout", &c.MaxTimeout, DefaultMaxTimeout},
	} {
		if *d.v < 0 {
			return c, fmt.Errorf("%w: %s %v is negative", txn.ErrInvalid, d.name, *d.v)
		}
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if c.Cluster != nil {
		own := *c.Cluster
		c.Cluster = &own
		if err := own.check(); err != nil {
			return c, err
		}
		own.Name = orElse(own.Name, hostName())
	}
	if c.MaxOpen == 0 {
		c.MaxOpen = 4_000_000
	}
	if c.SnapshotBytes == 0 {
		c.SnapshotBytes = DefaultSnapshotBytes
	}
	if c.trailingLogs == 0 {
		c.trailingLogs = math.MaxUint64
	}
	if c.wall == nil {
		c.wall = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}

// maxNodes is how many nodes a cluster may have. More than seven voters make every
// decision slower, and none safer.
const maxNodes = 9

func (c *Cluster) check() error {
	switch {
	case c.Listen == "":
		return fmt.Errorf("%w: no address for the other nodes given: want for example 10.0.0.1:7461", txn.ErrInvalid)
	case c.Expect < 0 || c.Expect > maxNodes:
		return fmt.Errorf("%w: %d nodes expected; want 0 to %d", txn.ErrInvalid, c.Expect, maxNodes)
	case len(c.Join) > 4*maxNodes:
		return fmt.Errorf("%w: %d addresses to join; at most %d", txn.ErrInvalid, len(c.Join), 4*maxNodes)
	case c.Expect > 1 && len(c.Join) < c.Expect-1:
		return fmt.Errorf("%w: %d nodes expected, and addresses of %d given: name all of them", txn.ErrInvalid, c.Expect, len(c.Join))
	case (c.CertFile == "") != (c.KeyFile == "") || (c.CertFile == "") != (c.CAFile == ""):
		return fmt.Errorf("%w: certificate, key and CA of the nodes belong together: give all three", txn.ErrInvalid)
	case len(c.Name) > 64 || len(c.API) > 256:
		return fmt.Errorf("%w: the node's name has %d bytes, its URL %d; at most 64 and 256", txn.ErrInvalid, len(c.Name), len(c.API))
	}
	return nil
}

// tlsFiles are those of TLS between the nodes; nil without.
func (c *Cluster) tlsFiles() *certs.Files {
	if c.CertFile == "" {
		return nil
	}
	return &certs.Files{Cert: c.CertFile, Key: c.KeyFile, CA: c.CAFile}
}
