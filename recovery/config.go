package recovery

import (
	"math/rand/v2"
	"time"

	"github.com/txmgr/txmgr/adaptive"
	"github.com/txmgr/txmgr/txn/admin"
)

// DefaultSweepEvery is the default of Config.SweepEvery.
const DefaultSweepEvery = 5 * time.Second

// Config tunes a [Recovery]. The zero Config is valid, but without Cluster
// nothing is swept.
type Config struct {
	// Cluster is the cluster id in the names of the branches that a sweep may touch. Without
	// a valid one [Recovery.Sweep] refuses.
	Cluster string
	// OptimizerSpec selects what chooses the number of concurrent calls at a participant.
	// Defaults to [adaptive.Knee].
	OptimizerSpec OptimizerSpec
	// OptimizerFor gives the spec for one participant; false means the other settings here.
	// It is called often, by many goroutines, and must neither block nor call the
	// [Recovery]. When its answer changes, calls under way end before others begin, and
	// what was learnt is forgotten. Defaults to none.
	OptimizerFor func(participant string) (OptimizerSpec, bool)
	// NewOptimizer, if set, replaces OptimizerSpec. It makes an optimizer for one
	// participant, which keeps it, so that every call must return a new one. An
	// optimizer that [adaptive.New] refuses decides nothing.
	NewOptimizer func() adaptive.Optimizer
	// Start is the number of concurrent calls at a participant before anything was learnt,
	// and so the number of workers that a participant can hold that hangs from the
	// beginning; an [adaptive.Fixed] begins with its own size. Defaults to 16.
	Start int
	// MaxPerParticipant is the largest number of concurrent calls that an optimizer of an
	// OptimizerSpec ever allows; a fixed size may be larger. Defaults to 256.
	MaxPerParticipant int
	// MaxCalls is the number of concurrent calls at all participants together, except that
	// one call is always allowed to each. Defaults to 4096.
	MaxCalls int
	// MaxReports is the number of concurrent calls to the log. Defaults to 256.
	MaxReports int
	// CallTimeout limits every call to a participant and to the log. Defaults to
	// 10s.
	CallTimeout time.Duration
	// ClientGrace is how long branches that the client completes are left to it; the grace
	// may be up to 10ms longer. Negative means none. Defaults to 1s.
	ClientGrace time.Duration
	// BackoffBase and BackoffMax bound the wait after a failed attempt at a
	// branch: full jitter below a ceiling that doubles. Default to 100ms and 30s.
	BackoffBase, BackoffMax time.Duration
	// BreakerThreshold is how many failures in a row open a participant's breaker.
	// Defaults to 5.
	BreakerThreshold int
	// BreakerMax is the longest time between two probes of a participant whose
	// breaker is open. Defaults to 5s.
	BreakerMax time.Duration
	// SweepEvery is the time between two visits to a participant: it is swept, pruned,
	// and probed if there was no contact for two and a half times as long. Negative
	// means that none of this happens periodically, which is right for a log that was
	// restored from a backup. Defaults to 5s.
	SweepEvery time.Duration
	// SweepLimit is how many branches one sweep acts on, and how many scan results it
	// returns of those that it leaves. Defaults to 1,000.
	SweepLimit int
	// OnScanResult receives every branch that a periodic sweep acted on, whether it
	// could be ended or not, and those that it has to leave to the operator: for the
	// log file and the metrics. Defaults to none.
	OnScanResult func(admin.ScanResult)
	// OnHealthChange receives, in order, the participants that go down and recover: for the
	// log file. Defaults to none.
	OnHealthChange func(HealthChange)
	// OnCall receives how long each call to end a branch took, however it ended: for
	// metrics. It is called by many goroutines, and must not block. May be nil.
	OnCall func(participant string, took time.Duration)
	// Rand gives numbers in [0, 1) for jitter; safe for concurrent use. Defaults
	// to math/rand/v2.
	Rand func() float64
}

func (c Config) withDefaults() Config {
	setDefault(&c.MaxPerParticipant, 256)
	setDefault(&c.Start, 16)
	setDefault(&c.MaxCalls, 4096)
	c.MaxPerParticipant = min(c.MaxPerParticipant, adaptive.MaxLimit)
	c.Start = min(c.Start, adaptive.MaxLimit)
	setDefault(&c.MaxReports, 256)
	setDefault(&c.CallTimeout, 10*time.Second)
	setDefault(&c.BackoffBase, 100*time.Millisecond)
	setDefault(&c.BackoffMax, 30*time.Second)
	setDefault(&c.BreakerThreshold, 5)
	setDefault(&c.BreakerMax, 5*time.Second)
	setDefault(&c.SweepLimit, 1000)
	if c.ClientGrace == 0 {
		c.ClientGrace = time.Second
	}
	if c.SweepEvery == 0 {
		c.SweepEvery = DefaultSweepEvery
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	return c
}

func setDefault[T int | time.Duration](v *T, value T) {
	if *v <= 0 {
		*v = value
	}
}
