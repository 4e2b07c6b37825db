package node

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"os"
	"time"

	"github.com/txmgr/txmgr/internal/certs"
	"github.com/txmgr/txmgr/internal/simenv"
	"github.com/txmgr/txmgr/node/membership"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn"
)

// Config configures [Open]. Only DataDir has no default.
type Config struct {
	// DataDir is the directory of the log and its snapshots. It is created if missing, and
	// belongs to one process at a time. Required.
	DataDir string
	// Interval is the time between two invocations of the timeout thread. It is fixed for ever
	// when the cluster is bootstrapped; later it must be zero or the same. From 1ms to 1m.
	// Defaults to 100ms.
	Interval time.Duration
	// Retention is how long finished outcomes are kept. They are kept up to 1/120 of it longer,
	// since outcomes that finished in the same 240th of it, or in the same 15s if that is less,
	// are dropped together. If there are more than Retain, the oldest are dropped earlier, as
	// long as Retain are left. Both are fixed like Interval. Defaults to 1h and 1,000,000.
	Retention time.Duration
	Retain    uint64
	// Checkpoint bounds by how much a restart can delay a deadline, in addition to the
	// downtime: while transactions are open, an entry is written at least that often.
	// Defaults to 10s.
	Checkpoint time.Duration
	// DefaultTimeout is the timeout of transactions that request none. Defaults to 30s.
	DefaultTimeout time.Duration
	// MaxTimeout is the longest timeout that may be requested. Defaults to 24h.
	MaxTimeout time.Duration
	// MaxOpen is how many transactions may be unfinished at once; a further begin is rejected
	// as unavailable. Defaults to 4,000,000.
	MaxOpen int
	// SnapshotBytes is after how many bytes of log every node takes a snapshot, or after as many
	// bytes as the last snapshot has, if that is more: so much a restart may have to replay. The
	// log keeps its last SnapshotBytes, and everything after the second newest snapshot.
	// Defaults to 64 MiB.
	SnapshotBytes uint64
	// Drivers open the registered participants, by kind. Defaults to none.
	Drivers map[string]participant.Driver
	// Participants are participants inside this process, by name; they are registered as kind
	// "embedded". Defaults to none.
	Participants map[string]participant.Participant
	// Cluster makes this node one of several. Defaults to nil: a single node.
	Cluster *Cluster
	// SimEnv is the environment of a simulated node, in place of DataDir and Cluster. Defaults
	// to nil: not simulated.
	SimEnv *simenv.Env
	// Recovery tunes phase two and the sweep. Defaults to the zero value, which suits most.
	Recovery recovery.Config
	// Logger receives the log lines for operators, through a queue: nothing waits for it.
	// Defaults to slog.Default().
	Logger *slog.Logger
	// OnFailure is called once, when the log can no longer be trusted, or is blocked so that only
	// ending the process helps. It must not call the node. Defaults to logging the error and
	// ending the process with exit code 1.
	OnFailure func(error)

	trailingLogs uint64           // entries that raft keeps before a snapshot, for tests; 0 means all: the node truncates the log by bytes
	wall         func() time.Time // the wall clock, for tests; nil means time.Now
	monotonic    func() time.Time // the clock that counts ticks, for tests; nil means time.Now, which is monotonic
	hooks        hooks            // for tests
}

// hooks are called at moments at which a test makes a node hang. Nil means nothing.
type hooks struct {
	takingOver func() // before this node takes over
	publishing func() // before the changes of an applied entry are published
}

// Cluster configures how the nodes of a cluster find one another. Every field but Listen may be
// zero.
type Cluster struct {
	// Listen is the address at which this node listens for other nodes, for example
	// 10.0.0.1:7461. Required.
	Listen string
	// Advertise is the address at which other nodes reach this one. Defaults to Listen.
	Advertise string
	// API is the URL at which clients, and nodes that forward calls, reach this node's server.
	// Defaults to none.
	API string
	// Name is the node's name for operators. Defaults to the host's name.
	Name string
	// Expect is how many nodes bootstrap a new cluster together: they wait for one another at
	// the addresses in Join. With 1 the node waits for no other; with 0 it bootstraps none, and
	// only joins an existing cluster. Defaults to 0.
	Expect int
	// Join are the addresses of other nodes, with or without this node's own. A node with an
	// empty log asks them to add it, if they belong to a cluster. Defaults to none.
	Join []string
	// CertFile, KeyFile and CAFile are PEM files for mutual TLS between the nodes, all three or
	// none. They are read again when they change. The certificate must name the peer role and
	// the cluster; txmgr config init makes such certificates. Default to none.
	CertFile, KeyFile, CAFile string
	// Insecure permits listening beyond loopback without TLS. Defaults to false.
	Insecure bool
}

// Defaults of a [Config]. The default of DefaultTimeout is [txn.DefaultTimeout].
const (
	DefaultInterval      = 100 * time.Millisecond
	DefaultRetention     = time.Hour
	DefaultMaxTimeout    = 24 * time.Hour
	DefaultSnapshotBytes = 64 << 20
	DefaultSweepEvery    = recovery.DefaultSweepEvery
)

// ParseOptimizer parses an optimizer for [Config].Recovery: knee, throughput, mean, p99, or
// fixed:N. The error for any other text wraps [txn.ErrInvalid].
func ParseOptimizer(text string) (recovery.OptimizerSpec, error) {
	return recovery.ParseOptimizer(text)
}

func (c Config) withDefaults() (Config, error) {
	if c.SimEnv != nil && c.Cluster != nil {
		return c, fmt.Errorf("%w: a simulated node gets its cluster from SimEnv, and not from Cluster", txn.ErrInvalid)
	}
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
		own.Name = cmp.Or(own.Name, hostName())
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

func (c *Cluster) check() error {
	switch {
	case c.Listen == "":
		return fmt.Errorf("%w: no address for the other nodes given: want for example 10.0.0.1:7461", txn.ErrInvalid)
	case c.Expect < 0 || c.Expect > membership.MaxNodes:
		return fmt.Errorf("%w: %d nodes expected; want 0 to %d", txn.ErrInvalid, c.Expect, membership.MaxNodes)
	case len(c.Join) > 4*membership.MaxNodes:
		return fmt.Errorf("%w: %d addresses to join; at most %d", txn.ErrInvalid, len(c.Join), 4*membership.MaxNodes)
	case c.Expect > 1 && len(c.Join) < c.Expect-1:
		return fmt.Errorf("%w: %d nodes expected, and addresses of %d given: name all of them", txn.ErrInvalid, c.Expect, len(c.Join))
	case (c.CertFile == "") != (c.KeyFile == "") || (c.CertFile == "") != (c.CAFile == ""):
		return fmt.Errorf("%w: certificate, key and CA of the nodes belong together: give all three", txn.ErrInvalid)
	case len(c.Name) > 64 || len(c.API) > 256:
		return fmt.Errorf("%w: the node's name has %d bytes, its URL %d; at most 64 and 256", txn.ErrInvalid, len(c.Name), len(c.API))
	}
	return nil
}

// tlsFiles are the files for TLS between the nodes; nil without TLS.
func (c *Cluster) tlsFiles() *certs.Files {
	if c.CertFile == "" {
		return nil
	}
	return &certs.Files{Cert: c.CertFile, Key: c.KeyFile, CA: c.CAFile}
}

// hostName is the default name of a node.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
