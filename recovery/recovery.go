package recovery

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/txmgr/txmgr/adaptive"
	"github.com/txmgr/txmgr/txn"
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

// Recovery drives pending transactions to completion and sweeps participants, for
// one term of leadership. Safe for concurrent use.
type Recovery struct {
	cfg   Config
	log   Log
	epoch time.Time

	retries   backoff // of branches
	probes    backoff // of breakers
	rereports backoff // of reports; short, since the log is the leader's own

	ctx    context.Context // of every call; ends with Stop
	cancel context.CancelFunc
	wg     sync.WaitGroup // everything that Stop waits for
	wakeCh chan struct{}  // wakes the loop

	probeSlots chan struct{} // one element for each probe under way

	mu             sync.Mutex // guards everything below, and what is reached from there
	state          runState
	inbox          fifo[txn.ID]             // to be planned
	deferred       graceQueue               // left to their clients
	transactions   map[txn.ID]txProgress    // planned, or in the inbox
	peak           int                      // the most transactions since the map was made
	attempts       map[item]*branchAttempts // branches tried and not finished
	lanes          map[string]*lane         // by participant
	active         []*lane                  // those with something queued
	dirty          []*lane                  // those whose ready calls may have changed
	starved        []*lane                  // those that wait until calls of other lanes end
	calls          int                      // under way at all participants
	reserved       int                      // calls kept free for lanes that were starved
	reportsBlocked bool                     // the pools were last told that the log accepts no results
	pools          int                      // lanes that have one
	idleCheckAt    time.Duration            // when to check for idle pools
	timers         timers                   // of branches and reports in backoff
	sleepUntil     time.Duration            // when the loop wakes up; zero while it works
	iterations     uint64                   // of the loop
	reporter       reporter                 // results to be reported
	history        attemptHistory           // of attempts
	healthChanges  healthChanges            // to be passed to Config.OnHealthChange
}

type runState uint8

const (
	fresh runState = iota
	running
	stopped
)

// txProgress is the state of a transaction while it is driven.
type txProgress struct {
	outstanding    uint16    // branches that are queued, called, backing off or being reported
	state          txn.State // for which it was planned; zero: not planned
	graceExpired   txn.State // the state for which the grace has expired or was waived
	replans        uint8     // how often it was planned again without a change of state
	queued         bool      // in the inbox
	deadlineTimer  bool      // a timer will put it into the inbox
	awaitingClient bool      // planned without the branches left to the client; Recovery.deferred has it
}

// New makes a Recovery. It accepts work and does nothing before Start.
func New(cfg Config, log Log) *Recovery {
	cfg = cfg.withDefaults()
	r := &Recovery{
		cfg:          cfg,
		log:          log,
		epoch:        time.Now(),
		retries:      backoff{cfg.BackoffBase, cfg.BackoffMax, cfg.Rand},
		probes:       backoff{min(time.Second, cfg.BreakerMax), cfg.BreakerMax, cfg.Rand},
		rereports:    backoff{cfg.BackoffBase, min(2*time.Second, cfg.BackoffMax), cfg.Rand},
		wakeCh:       make(chan struct{}, 1),
		probeSlots:   make(chan struct{}, maxProbes),
		transactions: make(map[txn.ID]txProgress),
		attempts:     make(map[item]*branchAttempts),
		timers:       newTimers(),
		lanes:        make(map[string]*lane),
	}
	r.deferred.grace = max(0, cfg.ClientGrace)
	r.reporter = reporter{limit: cfg.MaxReports, batches: make(map[txn.ID]*reportBatch)}
	r.reporter.br = breaker{threshold: cfg.BreakerThreshold, backoff: r.rereports}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Start begins the work. A second Start, or one after Stop, does nothing.
func (r *Recovery) Start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != fresh {
		return
	}
	r.state = running
	r.wake()
	r.wg.Go(r.loop)
	if r.cfg.SweepEvery > 0 && txn.ValidClusterID(r.cfg.Cluster) {
		r.wg.Go(r.runSweeps)
	}
}

// Stop cancels the calls in flight and waits until everything that was started
// has ended. It may be repeated. Nothing is lost: the log has the pending work.
func (r *Recovery) Stop() {
	r.mu.Lock()
	r.state = stopped
	r.mu.Unlock()
	r.cancel()
	r.wg.Wait()
	r.closePools()
}

// Add marks transactions that may have pending work. It is a hint: the log is
// read before anything is done, and repeating the hint costs nothing. It never blocks
// and may be called with the log's lock held.
func (r *Recovery) Add(ids ...txn.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == stopped {
		return
	}
	for _, id := range ids {
		r.enqueueLocked(id, 0)
	}
}

// DeferToClient is Add for transactions that were just decided and whose client completes
// all the branches: the log is not read before [Recovery.ClientGrace] has passed, and
// ordinarily has no work left then. It also spares a read for a transaction whose decision
// was just delegated, if the deadline is further away than that.
func (r *Recovery) DeferToClient(ids ...txn.ID) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == stopped {
		return
	}
	for _, id := range ids {
		if r.deferred.push(id, now) {
			r.wake()
		}
	}
}

// ClientGrace is the longest time for which [Recovery.DeferToClient] leaves a transaction alone.
func (r *Recovery) ClientGrace() time.Duration { return r.deferred.grace + graceWindow }

// Retry makes a transaction due now: it ends its backoff and grace, and
// probes its participants even if they are unhealthy. A delegated decision
// is still left to its branch until the deadline.
func (r *Recovery) Retry(id txn.ID) {
	w, ok := r.log.Pending(id)
	if !ok {
		return
	}
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == stopped {
		return
	}
	for i := range w.Branches {
		b := &w.Branches[i]
		l := r.laneLocked(b.Participant)
		l.br.allowProbe(now)
		r.markDirtyLocked(l)
		it := item{Key{id, b.ID}, w.action(b)}
		if t := r.attempts[it]; t != nil {
			t.fails = 0
			if t.state == backingOff {
				r.endBackoffLocked(it, t, now)
			}
		}
	}
	if b := r.reporter.batches[id]; b != nil && b.state == batchBackingOff {
		r.requeueLocked(id, b)
	}
	r.enqueueLocked(id, w.State)
	r.dispatchLocked(now)
}

// enqueueLocked puts a transaction into the inbox unless it is there, and ends the
// grace of its branches for the state graceExpired. mu is held.
func (r *Recovery) enqueueLocked(id txn.ID, graceExpired txn.State) {
	t := r.transactions[id]
	t.graceExpired = cmp.Or(graceExpired, t.graceExpired)
	if !t.queued {
		t.queued = true
		r.inbox.push(id)
		r.wake()
	}
	r.transactions[id] = t
}

// requeueLocked queues a report that backs off again; mu is held.
func (r *Recovery) requeueLocked(id txn.ID, b *reportBatch) {
	r.timers.cancel(&b.timer)
	b.state = batchQueued
	r.reporter.queue.push(id)
}

// now is the time on recovery's monotonic scale.
func (r *Recovery) now() time.Duration { return time.Since(r.epoch) }

// wake wakes the loop; it never blocks.
func (r *Recovery) wake() {
	select {
	case r.wakeCh <- struct{}{}:
	default:
	}
}
