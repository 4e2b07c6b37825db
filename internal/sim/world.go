package sim

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// Plan describes one run. Zero fields are drawn from the seed.
type Plan struct {
	Seed      uint64
	Nodes     int           // 3 or 5
	FaultTime time.Duration // for how long faults are injected
	Apps      int           // concurrent applications

	// Unanchored disks lack what prevents raft's livelock; see raftfsm/logstore.
	Unanchored bool

	// Cut makes raft truncate the log to so many entries when a snapshot is taken, instead of the
	// node. Zero: the node truncates.
	Cut uint64

	// Memory is drawn by [Run] when it is zero.
	Memory Memory

	// Bugs are planted, to check that they are found.
	Bugs Bugs
}

// Bugs are deliberate errors in the environment of the coordinator.
type Bugs struct {
	NoSync         bool // disks lose the end of what they reported as synced
	NoVotes        bool // disks lose the votes of raft
	OldSnapshot    bool // a snapshot has the contents of the previous one
	TrustNotThere  bool // the PostgreSQL participant takes "not there" for committed
	IgnoreTag      bool // an application takes the command tag ROLLBACK for a vote prepared
	NoWait         bool // the MariaDB participant commits without waiting, and trusts the answer
	ForgetPrepared bool // the service forgets its prepared branches
	StaleReads     bool // clients accept the answer of any node
	EarlyCommit    bool // an application commits a branch itself before the decision
	RenewMark      bool // clients renew the mark of an id at every attempt
	DropKeepAlives bool // a proxy answers keep-alives, and does not forward them
}

// World is one run.
type World struct {
	plan    Plan
	begun   time.Time
	rng     *rng
	ctx     context.Context // ends with the run
	stop    context.CancelFunc
	all     sync.WaitGroup // everything that has to end before the run
	callers sync.WaitGroup // those goroutines that call the coordinator

	net     *network
	hosts   []*host
	logs    *logRecorder // everything that was ever written to any log
	history *history

	pg    *postgres
	maria *mariadb
	web   *service

	mu             sync.Mutex // guards all below
	trace          []traceLine
	fired          map[string]int
	violations     []string
	apps           map[txn.ID]*txRecord // what applications know
	ids            []txn.ID             // the ids of apps, in the order of their creation
	sessionClients []*sessionClient
	notes          map[txn.ID][]traceLine // what participants did
}

type traceLine struct {
	at   time.Duration
	text string
}

// rng is a source of randomness for concurrent use.
type rng struct {
	mu sync.Mutex
	r  *rand.Rand // guarded by mu
}

func newRNG(seed, stream uint64) *rng {
	return &rng{r: rand.New(rand.NewPCG(seed, stream*0x9e3779b97f4a7c15+1))}
}

func (d *rng) n(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

// oneIn is true once in n times, on average.
func (d *rng) oneIn(n int) bool { return d.n(n) == 0 }

// between returns a duration from a up to b.
func (d *rng) between(a, b time.Duration) time.Duration {
	if b <= a {
		return a
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return a + time.Duration(d.r.Int64N(int64(b-a)))
}

func (d *rng) entropy() (c [9]byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range c {
		c[i] = byte(d.r.Uint32())
	}
	return c
}

func newWorld(p Plan) *World {
	d := newRNG(p.Seed, 1)
	if p.Nodes == 0 {
		p.Nodes = 3
		if d.oneIn(8) {
			p.Nodes = 5
		}
	}
	if p.FaultTime == 0 {
		p.FaultTime = d.between(30*time.Second, 60*time.Second)
	}
	if p.Apps == 0 {
		p.Apps = 6 + d.n(10)
	}
	w := &World{plan: p, begun: time.Now(), rng: d, fired: map[string]int{}, apps: map[txn.ID]*txRecord{}, notes: map[txn.ID][]traceLine{}, logs: newLogRecorder()}
	w.ctx, w.stop = context.WithCancel(context.Background())
	w.history = &history{w: w}
	w.net = newNetwork(w)
	w.pg, w.maria, w.web = newPostgres(w), newMariadb(w), newService(w)
	for i := range p.Nodes {
		w.hosts = append(w.hosts, newHost(w, i))
	}
	return w
}

// now is the simulation's time since the run began.
func (w *World) now() time.Duration { return time.Since(w.begun) }

// tracef adds a line to the trace.
func (w *World) tracef(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, traceLine{w.now(), fmt.Sprintf(format, args...)})
	if len(w.trace) > 4*traceLines {
		w.trace = slices.Delete(w.trace, 0, 2*traceLines)
	}
}

// noteTx adds a line to the trace of one transaction.
func (w *World) noteTx(id txn.ID, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes[id] = append(w.notes[id], traceLine{w.now(), fmt.Sprintf(format, args...)})
}

// txNotes returns the trace of one transaction.
func (w *World) txNotes(id txn.ID) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, n := range w.notes[id] {
		fmt.Fprintf(&b, "\n        %12v  %s", n.at, n.text)
	}
	return b.String()
}

// traceLines is how many lines of a trace are printed.
const traceLines = 250

// countFault counts an occurrence of a fault.
func (w *World) countFault(fault string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fired[fault]++
}

// faultCount is how often a fault has occurred.
func (w *World) faultCount(fault string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fired[fault]
}

// violate records a violation.
func (w *World) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.tracef("VIOLATION %s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf("%v: %s", w.now().Round(time.Microsecond), text))
}

// violationCount is the number of violations.
func (w *World) violationCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.violations)
}

// explain adds text to the last violation.
func (w *World) explain(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations[len(w.violations)-1] += text
}

// Trace is the end of the trace, as text.
func (w *World) Trace() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, l := range w.trace[max(0, len(w.trace)-traceLines):] {
		fmt.Fprintf(&b, "%12v  %s\n", l.at.Round(time.Microsecond), l.text)
	}
	return b.String()
}

// sleep waits, in the time of the bubble.
func sleep(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// sleepCtx waits, and reports false if ctx ends first.
func sleepCtx(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// beforePanic is the text that raft logs in processLogs just before it panics for want of an entry,
// in a goroutine of its own, where nothing can recover.
const beforePanic = "failed to get log"

// within reports whether a method of that name is on the stack of the caller.
func within(method string) bool {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, "."+method) {
			return true
		}
		if !more {
			return false
		}
	}
}

// logger adds the warnings of a node to the trace.
func (w *World) logger(host string) *slog.Logger { return slog.New(&traceHandler{w: w, host: host}) }

type traceHandler struct {
	w    *World
	host string
	with []slog.Attr
}

// Enabled implements [slog.Handler].
func (t *traceHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

// Handle implements [slog.Handler].
func (t *traceHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s says: %s", t.host, r.Message)
	for _, a := range t.with {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
	}
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	})
	t.w.tracef("%s", b.String())
	if r.Message == beforePanic && within("processLogs") {
		fmt.Fprintf(os.Stderr, "seed %d: raft is about to panic:\n%s", t.w.plan.Seed, t.w.Trace())
	}
	return nil
}

// WithAttrs implements [slog.Handler].
func (t *traceHandler) WithAttrs(as []slog.Attr) slog.Handler {
	return &traceHandler{w: t.w, host: t.host, with: append(slices.Clone(t.with), as...)}
}

// WithGroup implements [slog.Handler].
func (t *traceHandler) WithGroup(string) slog.Handler { return t }
