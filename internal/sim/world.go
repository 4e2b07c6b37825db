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
	Seed  uint64
	Nodes int           // 3 or 5
	Faced time.Duration // how long there are faults
	Apps  int           // applications at work at the same time

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
	NoSync    bool // disks forget the end of what they said was on them
	NoVotes   bool // disks forget the votes of raft
	OldImage  bool // a snapshot has the contents of the one before
	Believe   bool // the PostgreSQL participant takes "not there" for committed
	Tagless   bool // an application takes the command tag ROLLBACK for a yes
	Hasty     bool // the MariaDB participant commits without waiting, and believes the answer
	Forgetful bool // the service forgets what it has promised
	Stale     bool // clients take what any node says for the truth
	Impatient bool // an application commits a branch on its own before the decision
	Renewing  bool // clients renew the mark of an id at every try
	Unheard   bool // somebody on the way answers signs of life, and does not pass them on
}

// World is one run.
type World struct {
	plan   Plan
	begun  time.Time
	dice   *dice
	ctx    context.Context // ends with the run
	stop   context.CancelFunc
	all    sync.WaitGroup // whatever has to end before the run does
	people sync.WaitGroup // those of it that call

	net   *network
	hosts []*host
	books *books // what was ever written to any log
	past  *history

	pg    *postgres
	maria *mariadb
	web   *service

	mu         sync.Mutex // guards all below
	story      []line
	fired      map[string]int
	violations []string
	apps       map[txn.ID]*record // what applications know
	ids        []txn.ID           // of apps, in the order of their making
	guests     []*guest
	notes      map[txn.ID][]line // what participants did
}

type line struct {
	at   time.Duration
	text string
}

// dice is chance that many may draw from.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand // guarded by mu
}

func newDice(seed, stream uint64) *dice {
	return &dice{r: rand.New(rand.NewPCG(seed, stream*0x9e3779b97f4a7c15+1))}
}

func (d *dice) n(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

// one is true once in n times.
func (d *dice) one(n int) bool { return d.n(n) == 0 }

// between gives a duration from a up to b.
func (d *dice) between(a, b time.Duration) time.Duration {
	if b <= a {
		return a
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return a + time.Duration(d.r.Int64N(int64(b-a)))
}

func (d *dice) chance() (c [10]byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range c {
		c[i] = byte(d.r.Uint32())
	}
	return c
}

func newWorld(p Plan) *World {
	d := newDice(p.Seed, 1)
	if p.Nodes == 0 {
		p.Nodes = 3
		if d.one(8) {
			p.Nodes = 5
		}
	}
	if p.Faced == 0 {
		p.Faced = d.between(30*time.Second, 60*time.Second)
	}
	if p.Apps == 0 {
		p.Apps = 6 + d.n(10)
	}
	w := &World{plan: p, begun: time.Now(), dice: d, fired: map[string]int{}, apps: map[txn.ID]*record{}, notes: map[txn.ID][]line{}, books: newBooks()}
	w.ctx, w.stop = context.WithCancel(context.Background())
	w.past = &history{w: w}
	w.net = newNetwork(w)
	w.pg, w.maria, w.web = newPostgres(w), newMariadb(w), newService(w)
	for i := range p.Nodes {
		w.hosts = append(w.hosts, newHost(w, i))
	}
	return w
}

// now is the true time since the run began.
func (w *World) now() time.Duration { return time.Since(w.begun) }

// tell adds a line to the story.
func (w *World) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.story = append(w.story, line{w.now(), fmt.Sprintf(format, args...)})
	if len(w.story) > 4*storyLines {
		w.story = slices.Delete(w.story, 0, 2*storyLines)
	}
}

// note adds a line to the story of one transaction.
func (w *World) note(id txn.ID, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes[id] = append(w.notes[id], line{w.now(), fmt.Sprintf(format, args...)})
}

// noted gives the story of one transaction.
func (w *World) noted(id txn.ID) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, n := range w.notes[id] {
		fmt.Fprintf(&b, "\n        %12v  %s", n.at, n.text)
	}
	return b.String()
}

// storyLines is how much of a story is printed.
const storyLines = 250

// fire counts that a fault has happened.
func (w *World) fire(fault string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fired[fault]++
}

// times is how often a fault has happened.
func (w *World) times(fault string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fired[fault]
}

// violate records that something is wrong.
func (w *World) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.tell("VIOLATION %s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf("%v: %s", w.now().Round(time.Microsecond), text))
}

// wrong is how much is.
func (w *World) wrong() int {
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

// Story is the end of what happened, for people.
func (w *World) Story() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, l := range w.story[max(0, len(w.story)-storyLines):] {
		fmt.Fprintf(&b, "%12v  %s\n", l.at.Round(time.Microsecond), l.text)
	}
	return b.String()
}

// rest waits, in the time of the bubble.
func rest(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// restIn waits, and reports false when ctx ends first.
func restIn(ctx context.Context, d time.Duration) bool {
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
func (w *World) logger(host string) *slog.Logger { return slog.New(&teller{w: w, host: host}) }

type teller struct {
	w    *World
	host string
	with []slog.Attr
}

// Enabled implements [slog.Handler].
func (t *teller) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

// Handle implements [slog.Handler].
func (t *teller) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s says: %s", t.host, r.Message)
	for _, a := range t.with {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
	}
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	})
	t.w.tell("%s", b.String())
	if r.Message == beforePanic && within("processLogs") {
		fmt.Fprintf(os.Stderr, "seed %d: raft is about to panic:\n%s", t.w.plan.Seed, t.w.Story())
	}
	return nil
}

// WithAttrs implements [slog.Handler].
func (t *teller) WithAttrs(as []slog.Attr) slog.Handler {
	return &teller{w: t.w, host: t.host, with: append(slices.Clone(t.with), as...)}
}

// WithGroup implements [slog.Handler].
func (t *teller) WithGroup(string) slog.Handler { return t }
