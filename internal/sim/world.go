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

// Plan says what one run is like. Its zero value is drawn from the seed.
type Plan struct {
	Seed      uint64
	Nodes     int           // 3 or 5
	FaultTime time.Duration // how long there are faults
	Apps      int           // applications at work at the same time

	// Unanchored disks do not have what keeps raft's livelock away; see
	// raftfsm/logstore.
	Unanchored bool

	// Cut logs are cut by raft to so many entries, when a snapshot is asked for, and not by
	// the node. Zero: by the node.
	Cut uint64

	// Memory is drawn by [Run] when it is zero.
	Memory Memory

	// Bugs are planted, to see whether they are found.
	Bugs Bugs
}

// Bugs are ways to be wrong on purpose, of what stands around the coordinator.
type Bugs struct {
	NoSync         bool // disks forget the end of what they said was on them
	NoVotes        bool // disks forget the votes of raft
	OldSnapshot    bool // a snapshot has the contents of the one before
	TrustNotThere  bool // the PostgreSQL participant takes "not there" for committed
	IgnoreTag      bool // an application takes the command tag ROLLBACK for a yes
	NoWait         bool // the MariaDB participant commits without waiting, and believes the answer
	ForgetPrepared bool // the service forgets what it has promised
	StaleReads     bool // clients take what any node says for the truth
	EarlyCommit    bool // an application commits a branch on its own before the decision
	RenewMark      bool // clients renew the mark of an id at every try
	DropKeepAlives bool // somebody on the way answers signs of life, and does not pass them on
}

// World is one run.
type World struct {
	plan    Plan
	begun   time.Time
	rng     *rng
	ctx     context.Context // ends with the run
	stop    context.CancelFunc
	all     sync.WaitGroup // whatever has to end before the run does
	callers sync.WaitGroup // those of it that call

	net     *network
	hosts   []*host
	logs    *logRecorder // what was ever written to any log
	history *history

	pg    *postgres
	maria *mariadb
	web   *service

	mu             sync.Mutex // guards all below
	trace          []traceLine
	fired          map[string]int
	violations     []string
	apps           map[txn.ID]*txRecord // what applications know
	ids            []txn.ID             // of apps, in the order of their making
	sessionClients []*sessionClient
	notes          map[txn.ID][]traceLine // what participants did
}

type traceLine struct {
	at   time.Duration
	text string
}

// rng is chance that many may draw from.
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

// oneIn is true once in n times.
func (d *rng) oneIn(n int) bool { return d.n(n) == 0 }

// between gives a duration from a up to b.
func (d *rng) between(a, b time.Duration) time.Duration {
	if b <= a {
		return a
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return a + time.Duration(d.r.Int64N(int64(b-a)))
}

func (d *rng) entropy() (c [10]byte) {
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

// now is the true time since the run began.
func (w *World) now() time.Duration { return time.Since(w.begun) }

// tracef adds a line to the story.
func (w *World) tracef(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, traceLine{w.now(), fmt.Sprintf(format, args...)})
	if len(w.trace) > 4*traceLines {
		w.trace = slices.Delete(w.trace, 0, 2*traceLines)
	}
}

// noteTx adds a line to the story of one transaction.
func (w *World) noteTx(id txn.ID, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes[id] = append(w.notes[id], traceLine{w.now(), fmt.Sprintf(format, args...)})
}

// txNotes gives the story of one transaction.
func (w *World) txNotes(id txn.ID) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, n := range w.notes[id] {
		fmt.Fprintf(&b, "\n        %12v  %s", n.at, n.text)
	}
	return b.String()
}

// traceLines is how much of a story is printed.
const traceLines = 250

// countFault counts that a fault has happened.
func (w *World) countFault(fault string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fired[fault]++
}

// faultCount is how often a fault has happened.
func (w *World) faultCount(fault string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fired[fault]
}

// violate records that something is wrong.
func (w *World) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.tracef("VIOLATION %s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf("%v: %s", w.now().Round(time.Microsecond), text))
}

// violationCount is how much is.
func (w *World) violationCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.violations)
}

// explain adds to the last thing that is wrong.
func (w *World) explain(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations[len(w.violations)-1] += text
}

// Trace is the end of what happened, for people.
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

// sleepCtx waits, and reports false when ctx ends first.
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

// beforePanic is what raft says in processLogs just before it panics for want of an
// entry, in a goroutine of its own, where nobody can catch it.
const beforePanic = "failed to get log"

// within reports whether it is called by a method of that name, however deep.
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

// logger makes the warnings of a node a part of the story.
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
