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

// steps are the places of internal/failpoint at which a leader is killed. decided says
// that the log holds the decision to commit by then, for sure (yes, no) or perhaps
// (maybe). The number is which passage of the step is the last.
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
	{"finding received:2", "yes"},
}

// TestLeaderKilledAtEveryStep: a leader is killed at each step of a transfer, another
// node takes over, and the client that makes it goes on: it gets its commit without
// noticing. Then the same, and the client goes away when the leader does: what was
// decided is finished, and what was not is rolled back at its deadline.
func TestLeaderKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.form()
	m := newMoney(b, workers)
	tell := newTellers(m, b.dial(patience), &sleepers{t: t, c: b.m})
	for i, s := range steps {
		t.Run(s.failpoint, func(t *testing.T) {
			b := b.in(t)
			victim := b.nodes[i%size]
			b.arm(victim, s.failpoint)
			tr := s.transfer(i, 2*time.Minute)
			tell.all = append(tell.all, tr)
			start := time.Now()
			tell.try(tr)
			took := time.Since(start)
			b.died(victim, s.failpoint)
			if tr.outcome != saidOK {
				t.Errorf("the client lived, and was told %q (%s)", tr.outcome, tr.detail)
			}
			t.Logf("the transfer took %v over the take-over", took.Round(time.Millisecond))
			tell.oneEnd(b, tr, "yes")
		})
	}
	for i, s := range steps {
		if s.decided == "no" && i%2 == 1 {
			continue // half of what ends in the same way
		}
		t.Run(s.failpoint+", and the client dies", func(t *testing.T) {
			b := b.in(t)
			victim := b.nodes[i%size]
			b.arm(victim, s.failpoint)
			tr := s.transfer(i, 2*time.Second)
			tell.all = append(tell.all, tr)
			mortal := newTellers(m, b.dial(patience), tell.dozed)
			var dying sync.WaitGroup
			dying.Go(func() { mortal.try(tr) })
			b.died(victim, s.failpoint)
			_ = mortal.c.Close() // no call of it is repeated after this
			dying.Wait()
			tell.oneEnd(b, tr, s.decided)
		})
	}
	b.whole()
	m.settle()
	tell.audit()
}

// transfer is one that passes the step. The client of the SDK finishes its branches
// itself: those whose end the coordinator finds out are prepared by hand.
func (s step) transfer(i int, timeout time.Duration) *transfer {
	return &transfer{
		id: rig.NewID(), kind: kindPlain, from: i, to: i + 50, amount: 1, timeout: timeout,
		byHand: strings.HasPrefix(s.failpoint, "finding"),
	}
}

// in is the bed for a part of a test.
func (b *bed) in(t *testing.T) *bed {
	part := *b
	part.t = t
	return &part
}

// arm has a node lead that will be killed at a step.
func (b *bed) arm(n *node, failpoint string) {
	b.t.Helper()
	n.Kill()
	n.Env = func() []string { return []string{"TXMGR_FAILPOINT=" + failpoint} }
	b.must(n.Start(b.t.Context()))
	n.Env = nil
	b.whole()
	n.MayEnd()
	b.lead(n)
}

// died waits until the failpoint has killed a node, and starts it again without.
func (b *bed) died(n *node, failpoint string) {
	b.t.Helper()
	state, err := n.Ended(patience / 3)
	b.must(err)
	name, _, _ := strings.Cut(failpoint, ":")
	ws := state.Sys().(syscall.WaitStatus)
	if !ws.Signaled() || ws.Signal() != syscall.SIGKILL || !strings.Contains(n.text(1<<10), "failpoint: "+name) {
		b.t.Fatalf("the failpoint %q did not fire at %s: %v", failpoint, n.Name, state)
	}
	b.must(n.Start(b.t.Context()))
}

// oneEnd waits for the end of a transfer: what was decided for sure has to be so.
func (t *tellers) oneEnd(b *bed, tr *transfer, decided string) {
	b.t.Helper()
	var info txn.Info
	b.soon(patience, "the transfer has ended", func(ctx context.Context) (err error) {
		info, err = b.m.Wait(ctx, tr.id, txn.Finished)
		if errors.Is(err, txn.ErrNotFound) && tr.outcome != saidOK && decided == "no" {
			info.State, err = txn.RolledBack, nil // it never came to be
		}
		return err
	})
	committed := info.State == txn.Committed
	if decided == "yes" && !committed || decided == "no" && committed || tr.outcome == saidOK && !committed {
		b.t.Errorf("its teller was told %q, the decision to commit was in the log: %s; it ended %v, cause %v", tr.outcome, decided, info.State, info.Cause)
	}
}
