package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// app is one application: a process that may crash, or hang, at any step. It is a [txn.Manager]
// over all nodes, as the client is: it calls one node, which forwards to the leader; and another
// one if that could not be reached.
type app struct {
	w       *World
	n       int
	rng     *rng
	names   *rng           // which transactions it names without a call, and of the calls about them
	dead    chan struct{}  // closed when it has crashed
	hangs   bool           // it does not crash then, but does nothing more
	session *sessionClient // it begins its transactions in this session, while that is open; nil: none

	mu    sync.Mutex // guards all below
	steps int        // until it crashes; negative: never
	mark  txn.Mark   // the latest one it knows
}

var _ txn.Manager = (*app)(nil)

var errDied = fmt.Errorf("%w: sim: the application has died", txn.ErrUnavailable)

// step is one step of an application. A crashed application does nothing.
func (a *app) step() error {
	select {
	case <-a.dead:
		return errDied
	default:
	}
	a.mu.Lock()
	left := a.steps
	a.steps--
	a.mu.Unlock()
	switch {
	case left < 0:
		return nil
	case left == 0:
		close(a.dead)
		a.w.countFault("application dies")
		return errDied
	}
	return nil
}

// execStatement executes a statement on a connection of an application.
func execStatement[T any](ctx context.Context, a *app, id txn.ID, s *server, what string, do func() (T, error)) (T, error) {
	var none T
	if err := a.step(); err != nil {
		return none, err
	}
	v, err := exchange(ctx, s, nil, fmt.Sprintf("%s by application %d", what, a.n), do)
	a.w.noteTx(id, "%s at %s by application %d: %v", what, s.name, a.n, err)
	if a.died() {
		return none, errDied
	}
	return v, err
}

// exec executes a statement that returns only an error.
func (a *app) exec(ctx context.Context, id txn.ID, s *server, what string, do func() error) error {
	_, err := execStatement(ctx, a, id, s, what, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// hung reports whether it hangs while its connections stay open.
func (a *app) hung() bool { return a.hangs && a.died() }

// retryTimeout is how long a call is repeated.
const retryTimeout = 4 * time.Second

// call makes one call of the coordinator, at some node, and repeats it at another one if that is
// safe. try receives the node and returns its answer.
func call[T any](ctx context.Context, a *app, op opKind, id txn.ID, timeout time.Duration, try func(context.Context, txn.Manager) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, retryTimeout+time.Duration(a.rng.n(4000))*time.Millisecond)
	defer cancel()
	var none T
	maybe := false // an attempt may have been carried out
	for attempt := 0; ; attempt++ {
		if err := a.step(); err != nil {
			return none, err
		}
		v, err := callOnce(ctx, a, op, id, timeout, try)
		maybe = maybe || errors.Is(err, txn.ErrInDoubt)
		switch {
		case errors.Is(err, errDied):
			return none, err
		case maybe && op.decides() && errors.Is(err, txn.ErrNotFound):
			return none, fmt.Errorf("%w: an earlier try may have been carried out, and now the answer is: %v", txn.ErrInDoubt, err)
		case errors.Is(err, txn.ErrUnavailable), errors.Is(err, txn.ErrInDoubt) && attempt < 3:
			// Every call may be repeated.
			if sleepCtx(ctx, a.rng.between(20*time.Millisecond, 300*time.Millisecond)) {
				continue
			}
		}
		return v, err
	}
}

// callOnce makes one attempt, and records it.
func callOnce[T any](ctx context.Context, a *app, op opKind, id txn.ID, timeout time.Duration, try func(context.Context, txn.Manager) (T, error)) (T, error) {
	var none T
	l, stale, err := a.route(ctx)
	if err != nil {
		return none, err
	}
	begun := a.w.now()
	e := a.w.history.begin(a.n, op, id, l.host.index, timeout)
	got := make(chan answer[T], 1)
	a.w.all.Go(func() {
		l.host.gate.pass()
		c := ctx
		if stale {
			c = txn.AllowStale(c)
		}
		v, err := try(c, l.node)
		l.host.gate.pass()
		got <- answer[T]{v, err}
	})
	var r answer[T]
	select {
	case r = <-got:
		if a.rng.n(1000) < a.w.lostAnswerRate() {
			a.w.countFault("client: answer lost")
			r = answer[T]{err: fmt.Errorf("%w: sim: the answer was lost", txn.ErrInDoubt)}
		}
	case <-l.dead:
		r = answer[T]{err: fmt.Errorf("%w: sim: the node died", txn.ErrInDoubt)}
	case <-ctx.Done():
		r = answer[T]{err: fmt.Errorf("%w: %w", txn.ErrInDoubt, context.Cause(ctx))}
	}
	if a.died() {
		r = answer[T]{err: errDied}
	}
	if r.err != nil {
		r.v = none
	}
	a.w.history.end(e, r.v, r.err, begun)
	return r.v, r.err
}

// lostAnswerRate is how many of 1,000 answers to clients are lost.
func (w *World) lostAnswerRate() int {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	return w.net.lost / 2
}

// route chooses the node that answers: one that the client reaches and that leads, or the leader,
// if the first one reaches it. Sometimes it is one that does not lead.
func (a *app) route(ctx context.Context) (l *process, stale bool, err error) {
	hosts := a.w.hosts
	first := hosts[a.rng.n(len(hosts))]
	sleep(a.rng.between(100*time.Microsecond, time.Millisecond))
	if l = first.running(); l == nil {
		return nil, false, fmt.Errorf("%w: sim: %s refuses the connection", txn.ErrUnavailable, first.name)
	}
	if a.w.plan.Bugs.StaleReads && a.rng.oneIn(3) {
		return l, true, nil
	}
	if _, here := l.node.Leader(); here || a.rng.oneIn(20) {
		return l, false, nil
	}
	for range hosts {
		h := hosts[a.rng.n(len(hosts))]
		to := h.running()
		if to == nil || h == first {
			continue
		}
		if _, here := to.node.Leader(); !here {
			continue
		}
		a.w.countFault("call forwarded")
		if !a.w.net.reaches(first.index, h.index) || !a.w.net.reaches(h.index, first.index) {
			return nil, false, fmt.Errorf("%w: sim: %s does not reach %s", txn.ErrUnavailable, first.name, h.name)
		}
		return to, false, nil
	}
	return nil, false, fmt.Errorf("%w: sim: %s knows no leader", txn.ErrUnavailable, first.name)
}

// Begin implements [txn.Manager].
func (a *app) Begin(ctx context.Context, o txn.Options) (txn.BeginResult, error) {
	b, err := call(ctx, a, opBegin, o.ID, o.Timeout, func(ctx context.Context, m txn.Manager) (txn.BeginResult, error) {
		o := o
		if a.w.plan.Bugs.RenewMark {
			o.Mark = a.latestMark()
		}
		return m.Begin(ctx, o)
	})
	a.learnMark(b, err)
	a.w.learnCluster(b.Branches...)
	return b, err
}

// Enlist implements [txn.Manager].
func (a *app) Enlist(ctx context.Context, id txn.ID, e txn.Enlistment) (txn.Branch, error) {
	b, err := call(ctx, a, opOther, id, 0, func(ctx context.Context, m txn.Manager) (txn.Branch, error) { return m.Enlist(ctx, id, e) })
	a.w.learnCluster(b)
	return b, err
}

// Commit implements [txn.Manager].
func (a *app) Commit(ctx context.Context, id txn.ID, c txn.CommitRequest) (txn.Outcome, error) {
	return call(ctx, a, opCommit, id, 0, func(ctx context.Context, m txn.Manager) (txn.Outcome, error) { return m.Commit(ctx, id, c) })
}

// Rollback implements [txn.Manager].
func (a *app) Rollback(ctx context.Context, id txn.ID, reason string) (txn.Outcome, error) {
	return call(ctx, a, opRollback, id, 0, func(ctx context.Context, m txn.Manager) (txn.Outcome, error) { return m.Rollback(ctx, id, reason) })
}

// Vote implements [txn.Manager].
func (a *app) Vote(ctx context.Context, id txn.ID, b txn.Votes) (txn.Outcome, error) {
	return call(ctx, a, opVote, id, 0, func(ctx context.Context, m txn.Manager) (txn.Outcome, error) { return m.Vote(ctx, id, b) })
}

// Delegate implements [txn.Manager].
func (a *app) Delegate(ctx context.Context, id txn.ID, b txn.BranchID) (txn.Outcome, error) {
	return call(ctx, a, opDelegate, id, 0, func(ctx context.Context, m txn.Manager) (txn.Outcome, error) { return m.Delegate(ctx, id, b) })
}

// Extend implements [txn.Manager].
func (a *app) Extend(ctx context.Context, id txn.ID, d time.Duration) (txn.Outcome, error) {
	return call(ctx, a, opExtend, id, d, func(ctx context.Context, m txn.Manager) (txn.Outcome, error) { return m.Extend(ctx, id, d) })
}

// ReportCompletion implements [txn.Manager].
func (a *app) ReportCompletion(ctx context.Context, id txn.ID, acks ...txn.CompletionReport) error {
	_, err := call(ctx, a, opDone, id, 0, func(ctx context.Context, m txn.Manager) (txn.Outcome, error) {
		return txn.Outcome{}, m.ReportCompletion(ctx, id, acks...)
	})
	return err
}

// Get implements [txn.Manager].
func (a *app) Get(ctx context.Context, id txn.ID) (txn.Info, error) {
	return call(ctx, a, opGet, id, 0, func(ctx context.Context, m txn.Manager) (txn.Info, error) { return m.Get(ctx, id) })
}

// Wait implements [txn.Manager].
func (a *app) Wait(ctx context.Context, id txn.ID, g txn.Goal) (txn.Info, error) {
	return call(ctx, a, opGet, id, 0, func(ctx context.Context, m txn.Manager) (txn.Info, error) { return m.Wait(ctx, id, g) })
}
