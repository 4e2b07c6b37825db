package sim

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Outcome is the result of a run.
type Outcome struct {
	Seed         uint64
	Violations   []string
	Trace        string
	Fired        map[string]int
	Transactions int
	Committed    int
	RolledBack   int
	TimedOut     int
	Heuristics   int // the permitted ones: the end of the branch cannot be known
	Entries      int
	Messages     int
	Operations   int // checked for linearizability
	Snapshots    int
	Simulated    time.Duration
	Settled      time.Duration // after the faults were over
	Late         time.Duration // the latest timeout
}

// drainTimeout bounds how long everything may take to end after the faults: raft waits up to 10 s
// before it calls a follower again, recovery up to 30 s before it calls a participant again, a
// statement may still hang for 20 s, and a transaction lasts 10 s.
const drainTimeout = 100 * time.Second

// Run executes one run, in a bubble that the caller has created. It returns when everything in it
// has ended. Its goroutines carry the seed as a label, which a traceback shows with
// GODEBUG=tracebacklabels=1.
func Run(p Plan) (o Outcome) {
	seed := pprof.Labels("seed", strconv.FormatUint(p.Seed, 10))
	if p.Memory == (Memory{}) {
		p.Memory = drawRetention(p.Seed)
	}
	pprof.Do(context.Background(), seed, func(context.Context) { o = newWorld(p).run() })
	return o
}

func (w *World) run() Outcome {
	for _, h := range w.hosts {
		h.start()
	}
	end := w.plan.FaultTime
	for n := range w.plan.Apps {
		w.callers.Go(func() { w.runApp(n, end) })
	}
	for n := range 2 {
		w.callers.Go(func() { w.runRandomCalls(n, end) })
	}
	w.all.Go(func() { w.runNemesis(end) })
	sleep(end)
	w.stopNemesis()
	healed := w.now()
	w.awaitIdle(healed)
	settled := w.now() - healed
	if w.violationCount() == 0 {
		w.probe()
	}
	o := Outcome{Seed: w.plan.Seed, Settled: settled}
	w.finish(&o)
	o.Simulated, o.Fired, o.Violations, o.Trace = w.now(), w.fired, w.violations, w.Trace()
	o.Messages, o.Transactions = w.net.messages, len(w.ids)
	return o
}

// stopNemesis ends the faults, including those in progress.
func (w *World) stopNemesis() {
	w.tracef("enough")
	w.stop()           // lasting faults end now, and applications give up
	sleep(time.Second) // the faults revert their effects
	w.heal()           // whatever is left
	sleep(time.Second) // crashed nodes that were starting
	w.heal()           //
	w.callers.Wait()
}

// awaitIdle waits until no work is left.
func (w *World) awaitIdle(healed time.Duration) {
	why := ""
	for w.now() < healed+drainTimeout {
		if why = w.pendingWork(); why == "" {
			w.tracef("settled")
			return
		}
		sleep(250 * time.Millisecond)
	}
	w.violate("%v after the faults were over: %s%s", drainTimeout, why, w.aboutXID(why))
}

// aboutXID lists what the participants did for the branch that a text names.
func (w *World) aboutXID(text string) string {
	for _, word := range strings.Fields(text) {
		if _, id, _, ok := txn.ParseXID(word); ok {
			return w.txNotes(id)
		}
	}
	return ""
}

// pendingWork describes what has not ended yet; empty if everything has.
func (w *World) pendingWork() string {
	l := w.leader()
	if l == nil {
		return "no leader"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	open, err := l.node.List(ctx, admin.Filter{States: []txn.State{txn.Active, txn.Preparing, txn.Committing, txn.RollingBack}, Limit: 5})
	if err != nil {
		return fmt.Sprintf("the leader does not answer: %v", err)
	}
	if len(open) > 0 {
		return fmt.Sprintf("%v is %v: %+v", open[0].ID, open[0].State, open[0].Branches)
	}
	openSessions, err := l.node.Admin().Sessions(ctx, admin.SessionFilter{Limit: 1})
	if err != nil {
		return fmt.Sprintf("the leader does not answer: %v", err)
	}
	if len(openSessions) > 0 {
		return fmt.Sprintf("session %v is open: %+v", openSessions[0].ID, openSessions[0])
	}
	last := uint64(0)
	for _, h := range w.hosts {
		a := h.running()
		if a == nil {
			return h.name + " is down"
		}
		s, err := a.node.Admin().Status(txn.AllowStale(ctx))
		switch {
		case err != nil:
			return fmt.Sprintf("%s: %v", h.name, err)
		case last != 0 && s.LogIndex != last:
			return fmt.Sprintf("%s has applied %d of the log, another %d", h.name, s.LogIndex, last)
		}
		last = s.LogIndex
	}
	for _, s := range w.servers() {
		if n := s.inFlight.Load(); n > 0 {
			return fmt.Sprintf("%d requests are on their way to %s", n, s.name)
		}
	}
	return w.heldWork()
}

// heldWork describes what participants still hold.
func (w *World) heldWork() string {
	w.pg.mu.Lock()
	defer w.pg.mu.Unlock()
	for _, gid := range slices.Sorted(maps.Keys(w.pg.prepared)) {
		if !slices.Contains(foreignNames, gid) {
			return "bank holds " + gid + " prepared"
		}
	}
	for _, pid := range slices.Sorted(maps.Keys(w.pg.sessions)) {
		if s := w.pg.sessions[pid]; s.open && s.work {
			return fmt.Sprintf("bank: session %d keeps the work of %v", pid, s.tx)
		}
	}
	w.maria.mu.Lock()
	defer w.maria.mu.Unlock()
	for _, xid := range slices.Sorted(maps.Keys(w.maria.xas)) {
		if b := w.maria.xas[xid]; !b.foreign && !w.maria.isStray(xid) {
			return fmt.Sprintf("stock holds %s (%+v)", xid, *b)
		}
	}
	w.web.mu.Lock()
	defer w.web.mu.Unlock()
	for _, xid := range slices.Sorted(maps.Keys(w.web.states)) {
		if w.web.states[xid] == webPrepared {
			return "post holds " + xid
		}
	}
	return ""
}

// probe checks that timeouts and ends of sessions are on time without faults.
func (w *World) probe() {
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { w.probeSession(newRNG(w.plan.Seed, 6)) })
	d := newRNG(w.plan.Seed, 4)
	for range 3 {
		l := w.leader()
		if l == nil {
			w.violate("no leader although all is well")
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		w.probeOnce(ctx, d, l)
		cancel()
	}
}

func (w *World) probeOnce(ctx context.Context, d *rng, l *process) {
	o := txn.Options{Timeout: d.between(200*time.Millisecond, 1500*time.Millisecond)}
	id, from, to, err := w.beginNow(ctx, d, 99, l, o)
	if err != nil {
		w.violate("begin when all is well: %v", err)
		return
	}
	i, err := l.node.Wait(ctx, id, txn.UntilFinished)
	over := w.now()
	switch {
	case err != nil:
		w.violate("wait when all is well: %v", err)
	case i.Cause != txn.CauseTimeout:
		w.violate("%v ended by %v", id, i.Cause)
	case over < from+o.Timeout:
		w.violate("%v timed out %v early", id, from+o.Timeout-over)
	case over > to+o.Timeout+w.interval()+probeSlack:
		w.violate("%v timed out %v late, although all is well", id, over-to-o.Timeout)
	}
}

// probeSlack is time for a commit of the log and a confirmed read.
const probeSlack = 50 * time.Millisecond

// finish stops all nodes, waits for everything in progress, and checks everything.
func (w *World) finish(o *Outcome) {
	for until := w.now() + time.Second; w.violationCount() == 0 && w.now() < until && w.anyOpenSession(); {
		sleep(50 * time.Millisecond) // the end of the probe's transaction is on its way to the followers
	}
	for _, h := range w.hosts {
		if l := h.running(); l != nil {
			if err := l.node.Snapshot(); err != nil {
				w.violate("%s: a last snapshot: %v", h.name, err)
			}
		}
	}
	w.check(o)
	for _, h := range w.hosts {
		l := h.running()
		if l == nil {
			continue
		}
		close(l.dead)
		l.tr.shut()
		w.all.Go(func() { _ = l.node.Close() })
	}
	w.awaitEnd()
}

// shutdownTimeout bounds how long everything in progress may take to end after the last request.
const shutdownTimeout = 10 * time.Minute

// awaitEnd waits until everything has ended. A bubble cannot be left while it contains goroutines,
// and its time advances as long as they have timers: what does not end is printed, and ends the
// process.
func (w *World) awaitEnd() {
	late := time.AfterFunc(shutdownTimeout, func() {
		stacks := make([]byte, 1<<20)
		panic(fmt.Sprintf("seed %d: not at an end %v later\n%s\n%s", w.plan.Seed, shutdownTimeout, w.Trace(), stacks[:runtime.Stack(stacks, true)]))
	})
	defer late.Stop()
	w.all.Wait()
}
