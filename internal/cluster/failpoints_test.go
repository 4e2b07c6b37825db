package cluster

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/txn"
)

type step struct{ failpoint, decided string }

// steps are the steps of internal/failpoint at which a leader is killed. decided tells whether the
// log contains the decision to commit by then, for sure (yes, no) or perhaps (maybe). The number is
// the pass of the step at which it is killed.
var steps = []step{
	{"begin received", "no"},
	{"begin applied", "no"},
	{"enlist received", "no"},
	{"enlist applied", "no"},
	{"enlist applied:2", "no"},
	{"commit received", "no"},
	{"decision proposed", "maybe"},
	{"commit applied", "yes"},
	{"finding received", "yes"},
	{"finding applied", "yes"},
	{twoReports, "yes"},
}

const twoReports = "finding received:2"

// TestLeaderKilledAtEveryStep: a leader is killed at each step of a transfer, another node takes
// over, and the client continues: it gets its commit without an error. Then the same with a client
// that stops with the leader: what was decided is completed, and what was not is rolled back at its
// deadline.
func TestLeaderKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t)
	b.form()
	m := newMoney(b, transferWorkers)
	tell := newTransferClients(m, b.dial(waitTimeout), &abandonedTxs{t: t, c: b.m})
	for i, s := range steps {
		t.Run(s.failpoint, func(t *testing.T) {
			b := b.forSubtest(t)
			victim := b.nodes[i%size]
			b.armFailpoint(victim, s.failpoint)
			tr := s.transfer(i, 2*time.Minute)
			tell.all = append(tell.all, tr)
			start := time.Now()
			tell.attempt(tr)
			took := time.Since(start)
			b.awaitFailpointExit(victim, s.failpoint, func() {
				tr = s.transfer(i, 2*time.Minute)
				tell.all = append(tell.all, tr)
				tell.attempt(tr)
			})
			if tr.outcome != outcomeOK {
				t.Errorf("the client lived, and was told %q (%s)", tr.outcome, tr.detail)
			}
			t.Logf("the transfer took %v over the take-over", took.Round(time.Millisecond))
			tell.checkEnd(b, tr, "yes")
		})
	}
	for i, s := range steps {
		if s.decided == "no" && i%2 == 1 {
			continue // half of the steps with the same end
		}
		t.Run(s.failpoint+", and the client dies", func(t *testing.T) {
			b := b.forSubtest(t)
			victim := b.nodes[i%size]
			b.armFailpoint(victim, s.failpoint)
			tr := s.transfer(i, 2*time.Second)
			tell.all = append(tell.all, tr)
			mortal := newTransferClients(m, b.dial(waitTimeout), tell.abandoned)
			var dying sync.WaitGroup
			dying.Go(func() { mortal.attempt(tr) })
			b.awaitFailpointExit(victim, s.failpoint, func() {
				dying.Wait()
				tr = s.transfer(i, 2*time.Second)
				tell.all = append(tell.all, tr)
				dying.Go(func() { mortal.attempt(tr) })
			})
			_ = mortal.c.Close() // none of its calls is repeated after this
			dying.Wait()
			tell.checkEnd(b, tr, s.decided)
		})
	}
	b.awaitHealthy()
	m.awaitIdle()
	tell.checkConsistency()
}

// transfer returns a transfer that passes the step. The client of the SDK completes its branches
// itself: branches that the coordinator has to complete are prepared manually.
func (s step) transfer(i int, timeout time.Duration) *transfer {
	return &transfer{
		id: rig.NewID(), kind: kindPlain, from: i, to: i + 50, amount: 1, timeout: timeout,
		manual: strings.HasPrefix(s.failpoint, "finding"),
	}
}

// forSubtest is the cluster for a part of a test.
func (b *testCluster) forSubtest(t *testing.T) *testCluster {
	part := *b
	part.t = t
	return &part
}

// armFailpoint makes a node the leader that will be killed at a step.
func (b *testCluster) armFailpoint(n *node, failpoint string) {
	b.t.Helper()
	n.Kill()
	n.Env = func() []string { return []string{"TXMGR_FAILPOINT=" + failpoint} }
	b.must(n.Start(b.t.Context()))
	n.Env = nil
	b.awaitHealthy()
	n.ExpectExit()
	b.makeLeader(n)
}

// awaitFailpointExit waits until the failpoint has killed a node, and starts it again without. A step that
// is passed twice may not be in one transfer: the results of branches that end together are one report. Then
// further transfers pass it.
func (b *testCluster) awaitFailpointExit(n *node, failpoint string, further func()) {
	b.t.Helper()
	state, err := n.WaitExit(waitTimeout / 15)
	for range 10 {
		if err == nil || failpoint != twoReports {
			break
		}
		further()
		state, err = n.WaitExit(waitTimeout / 15)
	}
	if err != nil {
		state, err = n.WaitExit(waitTimeout / 3)
	}
	b.must(err)
	name, _, _ := strings.Cut(failpoint, ":")
	ws := state.Sys().(syscall.WaitStatus)
	if !ws.Signaled() || ws.Signal() != syscall.SIGKILL || !strings.Contains(n.outputTail(1<<10), "failpoint: "+name) {
		b.t.Fatalf("the failpoint %q did not fire at %s: %v", failpoint, n.Name, state)
	}
	b.must(n.Start(b.t.Context()))
}

// checkEnd waits for the end of a transfer: what was surely decided has to end so.
func (t *transferClients) checkEnd(b *testCluster, tr *transfer, decided string) {
	b.t.Helper()
	var info txn.Info
	b.eventually(waitTimeout, "the transfer has ended", func(ctx context.Context) (err error) {
		info, err = b.m.Wait(ctx, tr.id, txn.UntilFinished)
		if errors.Is(err, txn.ErrNotFound) && tr.outcome != outcomeOK && decided == "no" {
			info.State, err = txn.RolledBack, nil // it never began
		}
		return err
	})
	committed := info.State == txn.Committed
	if decided == "yes" && !committed || decided == "no" && committed || tr.outcome == outcomeOK && !committed {
		b.t.Errorf("its teller was told %q, the decision to commit was in the log: %s; it ended %v, cause %v", tr.outcome, decided, info.State, info.Cause)
	}
}
