package recovery

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/txmgr/txmgr/adaptive"
	"github.com/txmgr/txmgr/txn"
)

// DefaultSweepEvery is what Config.SweepEvery is when it is not set.
const DefaultSweepEvery = 5 * time.Second

// Config tunes a [Recovery]. The zero Config is valid, but without Cluster
// nothing is swept.
type Config struct {
	// Cluster is the tag in the XIDs that a sweep may touch. Without a valid tag
	// [Recovery.Sweep] refuses.
	Cluster string
	// OptimizerSpec says what decides how many calls a participant gets at once. Defaults to
	// [adaptive.Knee].
	OptimizerSpec OptimizerSpec
	// OptimizerFor gives the choice for one participant; false leaves it to the others here.
	// It is called often, by many goroutines, and must neither block nor call the
	// [Recovery]. When it changes, calls under way end before others begin, and what was
	// learnt is forgotten. Defaults to none.
	OptimizerFor func(participant string) (OptimizerSpec, bool)
	// NewOptimizer, if any, takes the place of Choice. It makes an optimizer for a
	// participant, which keeps it, and so must be given a new one at every call. One
	// that [adaptive.New] refuses decides nothing.
	NewOptimizer func() adaptive.Optimizer
	// Start is how many calls a participant gets at once before anything was learnt, and
	// how many workers one can hold that hangs from the beginning; an [adaptive.Fixed]
	// begins with what it says. Defaults to 16.
	Start int
	// MaxPerParticipant is the most calls that an optimizer of a Choice ever allows at
	// once; a fixed number may be larger. Defaults to 256.
	MaxPerParticipant int
	// MaxCalls is how many calls there are at once at all participants together, but for
	// one that each is always allowed. Defaults to 4096.
	MaxCalls int
	// MaxReports is how many calls the log gets at once. Defaults to 256.
	MaxReports int
	// CallTimeout limits every call to a participant and to the log. Defaults to
	// 10s.
	CallTimeout time.Duration
	// ClientGrace is how long branches that the application finishes itself are left to
	// it; it may become up to 10ms more. Negative means none. Defaults to 1s.
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
	// SweepEvery is the time between two visits to a participant: it is swept, tidied,
	// and probed if nothing was heard of it for two and a half times as long. Negative
	// means that nothing of this is done unasked, which is right for a log that was
	// restored from a backup. Defaults to 5s.
	SweepEvery time.Duration
	// SweepLimit is how many branches one sweep acts on, and how many findings it
	// returns of those that it leaves. Defaults to 1,000.
	SweepLimit int
	// OnScanResult is told of every branch that a periodic sweep acted on, whether it
	// could be ended or not, and of those that it has to leave to a person: for the
	// log file and the metrics. Defaults to nobody.
	OnScanResult func(txn.ScanResult)
	// OnHealthChange is told, in order, of participants that go down and come back: for the log
	// file. Defaults to nobody.
	OnHealthChange func(HealthChange)
	// OnCall is told how long each call to end a branch took, however it ended: for
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

// Recovery drives undone transactions to their end and sweeps participants, for
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
	wakeCh chan struct{}  // tells the loop to look again

	probeSlots chan struct{} // holds the probes under way

	mu             sync.Mutex // guards everything below, and what is reached from there
	state          runState
	inbox          fifo[txn.ID]             // to be planned
	deferred       graceQueue               // left to their applications
	transactions   map[txn.ID]txProgress    // planned, or in the inbox
	peak           int                      // the most tasks since the map was made
	attempts       map[item]*branchAttempts // tried and not finished
	lanes          map[string]*lane         // by participant
	active         []*lane                  // those with something queued
	dirty          []*lane                  // those of which something has changed
	starved        []*lane                  // those that have to wait until others' calls end
	calls          int                      // under way at all participants
	reserved       int                      // to be allowed to lanes that were short
	reportsBlocked bool                     // lanes were last told that the log takes no results
	pools          int                      // lanes that have one
	idleCheckAt    time.Duration            // when to look for pools that are not needed
	timers         timers                   // of what is parked
	sleepUntil     time.Duration            // until when the loop sleeps; zero while it looks
	iterations     uint64                   // how often the loop has looked
	reporter       reporter                 // to be reported
	history        attemptHistory           // what was tried
	healthChanges  healthChanges            // to be told
}

type runState uint8

const (
	fresh runState = iota
	running
	stopped
)

// txProgress is what is remembered of a transaction while it is driven.
type txProgress struct {
	outstanding    uint16    // branches that are queued, tried, parked or being reported
	state          txn.State // for which it was planned; zero: not yet
	graceExpired   txn.State // for which there is no grace: it is over, or was waived
	replans        uint8     // how often it was planned again without a change of state
	queued         bool      // in the inbox
	deadlineTimer  bool      // a timer will put it into the inbox
	awaitingClient bool      // planned without the branches that are left to the application; graces has it
}

// New makes a Recovery. It does nothing before Start, but takes work.
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

// Start begins to work. A second Start, or one after Stop, does nothing.
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
// has ended. It may be repeated. Nothing is lost: the log knows what is undone.
func (r *Recovery) Stop() {
	r.mu.Lock()
	r.state = stopped
	r.mu.Unlock()
	r.cancel()
	r.wg.Wait()
	r.closePools()
}

// Add tells that transactions may have undone work. It is a hint: the log is
// asked before anything is done, and repeating it costs nothing. It never blocks
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

// DeferToClient is Add for transactions that were just decided and whose application
// finishes all the branches itself: the log is not asked before [Recovery.ClientGrace] is
// over, and in the ordinary case has nothing left then. It also spares a question
// for a transaction whose decision was just delegated, if the deadline is further
// away than that.
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

// ClientGrace is the longest that [Recovery.DeferToClient] leaves a transaction alone.
func (r *Recovery) ClientGrace() time.Duration { return r.deferred.grace + graceWindow }

// Retry lets a transaction be tried now: it forgets its backoff and grace, and
// probes its participants even if they are held to be unhealthy. A decision that
// was delegated is left to its branch until the deadline all the same.
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

// enqueueLocked puts a transaction into the inbox unless it is there; there is no
// grace any more if it is in state graced. mu is held.
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

// requeueLocked lets a parked report be sent again; mu is held.
func (r *Recovery) requeueLocked(id txn.ID, b *reportBatch) {
	r.timers.cancel(&b.timer)
	b.state = batchQueued
	r.reporter.queue.push(id)
}

// now is the time on recovery's monotonic scale.
func (r *Recovery) now() time.Duration { return time.Since(r.epoch) }

// wake makes the loop look again; it never blocks.
func (r *Recovery) wake() {
	select {
	case r.wakeCh <- struct{}{}:
	default:
	}
}
