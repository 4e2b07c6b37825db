package recovery

import (
	"context"
	"sync"
	"time"

	"github.com/txmgr/txmgr/recovery/breaker"
	"github.com/txmgr/txmgr/recovery/history"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/recovery/queue"
	"github.com/txmgr/txmgr/recovery/scan"
	"github.com/txmgr/txmgr/txn"
)

// Recovery drives pending transactions to completion and sweeps participants, for
// one term of leadership. Safe for concurrent use.
type Recovery struct {
	cfg      Config
	log      Log
	backoffs backoffs
	life     lifetime
	visits   visits

	mu            sync.Mutex // guards everything below, and what is reached from there
	state         runState
	pending       pendingTxs               // transactions on their way to the lanes, and driven
	attempts      map[item]*branchAttempts // branches tried and not finished
	history       history.Archive          // of attempts
	lanes         laneSet                  // the participants
	calls         callLimit                // of all participants together
	wakeups       wakeups                  // of the loop
	reporter      reporter                 // results to be reported
	healthChanges healthChanges            // to be passed to Config.OnHealthChange
}

// lifetime is the term of leadership: everything that Start begins ends with it.
type lifetime struct {
	epoch  time.Time       // zero on recovery's monotonic scale
	ctx    context.Context // of every call; ends with Stop
	cancel context.CancelFunc
	wg     sync.WaitGroup // everything that Stop waits for
}

// visits is what the visits to participants share.
type visits struct {
	scanner scan.Scanner
	probing chan struct{} // one element for each probe under way
	reading sync.Map      // of ids: the transactions whose deciders are being asked
}

// backoffs are the waits after failures.
type backoffs struct {
	branches breaker.Backoff
	probes   breaker.Backoff // of breakers
	reports  breaker.Backoff // short, since the log is the leader's own
}

type runState uint8

const (
	fresh runState = iota
	running
	stopped
)

// New makes a Recovery. It accepts work and does nothing before Start.
func New(cfg Config, log Log) *Recovery {
	cfg = cfg.withDefaults()
	r := &Recovery{
		cfg: cfg,
		log: log,
		backoffs: backoffs{
			branches: breaker.Backoff{Base: cfg.BackoffBase, Max: cfg.BackoffMax, Rand: cfg.Rand},
			probes:   breaker.Backoff{Base: min(time.Second, cfg.BreakerMax), Max: cfg.BreakerMax, Rand: cfg.Rand},
			reports:  breaker.Backoff{Base: cfg.BackoffBase, Max: min(2*time.Second, cfg.BackoffMax), Rand: cfg.Rand},
		},
		life: lifetime{epoch: time.Now()},
		visits: visits{
			scanner: scan.Scanner{Log: log, Cluster: cfg.Cluster, CallTimeout: cfg.CallTimeout, Grace: max(0, cfg.ClientGrace), Limit: cfg.SweepLimit, Rand: cfg.Rand},
			probing: make(chan struct{}, maxProbes),
		},
		pending:  pendingTxs{transactions: make(map[txn.ID]txProgress)},
		attempts: make(map[item]*branchAttempts),
		lanes:    laneSet{byName: make(map[string]*lane)},
		calls:    callLimit{most: cfg.MaxCalls},
		wakeups:  wakeups{ch: make(chan struct{}, 1), timers: newTimers()},
	}
	r.pending.deferred.Wait = max(0, cfg.ClientGrace)
	r.reporter = reporter{limit: cfg.MaxReports, batches: make(map[txn.ID]*reportBatch)}
	r.reporter.br = breaker.Breaker{Threshold: cfg.BreakerThreshold, Backoff: r.backoffs.reports}
	r.life.ctx, r.life.cancel = context.WithCancel(context.Background())
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
	r.wakeups.wake()
	r.life.wg.Go(r.loop)
	if r.cfg.SweepEvery > 0 && txn.ValidClusterID(r.cfg.Cluster) {
		r.life.wg.Go(r.runSweeps)
	}
}

// Stop cancels the calls in flight and waits until everything that was started
// has ended. It may be repeated. Nothing is lost: the log has the pending work.
func (r *Recovery) Stop() {
	r.mu.Lock()
	r.state = stopped
	r.mu.Unlock()
	r.life.cancel()
	r.life.wg.Wait()
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
		if r.pending.deferred.Push(id, now) {
			r.wakeups.wake()
		}
	}
}

// ClientGrace is the longest time for which [Recovery.DeferToClient] leaves a transaction alone.
func (r *Recovery) ClientGrace() time.Duration { return r.pending.deferred.Wait + queue.GraceWindow }

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
		l.health.br.AllowProbe(now)
		r.lanes.markDirtyLocked(l)
		it := item{plan.Key{TX: id, Branch: b.ID}, w.Action(b)}
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

// now is the time on recovery's monotonic scale.
func (r *Recovery) now() time.Duration { return time.Since(r.life.epoch) }
