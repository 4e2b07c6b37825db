package recovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
)

// fakeParticipant models a participant and the ways in which real ones fail: it hangs,
// fails some times, answers too late, loses answers, forgets.
type fakeParticipant struct {
	latency time.Duration

	mu       sync.Mutex
	prepared map[string]bool
	ended    map[string]participant.BranchOutcome // its proof
	listed   []participant.Prepared               // what else it lists as prepared
	votes    map[txn.BranchID]txn.Vote            // answers to prepare; yes by default
	reason   string                               // of a no
	fault    func(recordedCall) fault
	listErr  error
	calls    []recordedCall
	counts   map[string]int
	running  int
	most     int // concurrent calls
	checkErr error
	checkFor time.Duration // it takes; negative: for ever
	checks   []time.Time
}

// recordedCall is one call of Commit, Rollback, Prepare, ResolveOutcome or ReadOutcome.
type recordedCall struct {
	verb    plan.Action
	branch  participant.Branch
	at      time.Time
	n       int // of this action for this branch, from 1
	outcome error
}

type fault uint8

const (
	none   fault = iota
	hang         // accepts, never answers
	fail         // error, no effect
	refuse       // the same, as a NoEffectError
	late         // takes effect after the caller has given up
	lose         // takes effect, the answer is lost
	forget       // does not know the branch any more
	crash        // panics
	lie          // answers with an invalid value
)

var errDown = errors.New("connection refused")

func newParticipant(l *fakeLog, name string) *fakeParticipant {
	res := &fakeParticipant{
		latency: time.Millisecond, prepared: make(map[string]bool),
		ended: make(map[string]participant.BranchOutcome), counts: make(map[string]int), votes: make(map[txn.BranchID]txn.Vote),
	}
	l.parts[name] = res
	return res
}

func (p *fakeParticipant) prepare(xid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prepared[xid] = true
}

// setEnd makes a branch one that its application has ended, as far as there is proof.
func (p *fakeParticipant) setEnd(xid string, e participant.BranchOutcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended[xid] = e
}

func (p *fakeParticipant) setFault(f func(recordedCall) fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

// always returns the same fault for every call.
func always(f fault) func(recordedCall) fault { return func(recordedCall) fault { return f } }

func (p *fakeParticipant) enter(verb plan.Action, b participant.Branch) (int, fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := verb.String() + b.XID
	p.counts[id]++
	c := recordedCall{verb: verb, branch: b, at: time.Now(), n: p.counts[id]}
	p.calls = append(p.calls, c)
	p.running++
	p.most = max(p.most, p.running)
	if p.fault == nil {
		return len(p.calls) - 1, none
	}
	return len(p.calls) - 1, p.fault(c)
}

func (p *fakeParticipant) leave(i int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	p.calls[i].outcome = err
}

// act is the common course of all calls: fault, latency, effect.
func (p *fakeParticipant) act(ctx context.Context, verb plan.Action, b participant.Branch, effect func(fault)) (err error) {
	i, f := p.enter(verb, b)
	defer func() { p.leave(i, err) }()
	switch f {
	case hang:
		<-ctx.Done()
		return ctx.Err()
	case fail:
		return errDown
	case refuse:
		return fmt.Errorf("commit: %w", &participant.NoEffectError{Err: errDown})
	case crash:
		panic("nil map")
	}
	if !sleep(ctx, p.latency) {
		return ctx.Err()
	}
	if f == late {
		<-ctx.Done()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f == forget && verb < plan.ResolveOutcome {
		delete(p.prepared, b.XID)
		delete(p.ended, b.XID)
	}
	effect(f)
	if f == late || f == lose {
		return errors.New("connection reset")
	}
	return nil
}

func (p *fakeParticipant) end(ctx context.Context, verb plan.Action, b participant.Branch, as participant.BranchOutcome) (participant.Result, error) {
	var res participant.Result
	err := p.act(ctx, verb, b, func(f fault) {
		if p.prepared[b.XID] {
			delete(p.prepared, b.XID)
			p.ended[b.XID] = as
		}
		res = participant.Result{Outcome: p.ended[b.XID], Detail: "model"}
		if res.Outcome == 0 {
			res.Outcome = participant.Unknown
			if as == participant.RolledBack {
				res.Outcome = participant.RolledBack // it never prepared
			}
		}
		if f == lie {
			res.Outcome = 77
		}
	})
	return res, err
}

func (p *fakeParticipant) Commit(ctx context.Context, b participant.Branch) (participant.Result, error) {
	return p.end(ctx, plan.Commit, b, participant.Committed)
}

func (p *fakeParticipant) Rollback(ctx context.Context, b participant.Branch) (participant.Result, error) {
	return p.end(ctx, plan.Rollback, b, participant.RolledBack)
}

func (p *fakeParticipant) Prepare(ctx context.Context, b participant.Branch) (txn.Vote, string, error) {
	vote := txn.VotePrepared
	err := p.act(ctx, plan.Prepare, b, func(fault) {
		if v := p.votes[b.ID]; v != 0 {
			vote = v
		}
		if vote == txn.VotePrepared {
			p.prepared[b.XID] = true
		}
	})
	return vote, p.reason, err
}

// ResolveOutcome ends the application's connection: uncommitted work is lost.
func (p *fakeParticipant) ResolveOutcome(ctx context.Context, b participant.Branch) (participant.Result, error) {
	var res participant.Result
	err := p.act(ctx, plan.ResolveOutcome, b, func(f fault) {
		if p.ended[b.XID] == 0 {
			p.ended[b.XID] = participant.RolledBack
		}
		res = participant.Result{Outcome: p.ended[b.XID], Detail: "model"}
		switch f {
		case forget:
			res.Outcome = participant.Unknown
		case lie:
			res.Outcome = 77
		}
	})
	return res, err
}

// ReadOutcome reports what is proved, and changes nothing.
func (p *fakeParticipant) ReadOutcome(ctx context.Context, b participant.Branch) (res participant.Result, known bool, err error) {
	err = p.act(ctx, plan.ReadOutcome, b, func(f fault) {
		res = participant.Result{Outcome: p.ended[b.XID], Detail: "model"}
		if f == lie {
			res.Outcome = 77
		}
	})
	return res, err == nil && res.Outcome != 0, err
}

func (p *fakeParticipant) Prepared(ctx context.Context, _ string) ([]participant.Prepared, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listErr != nil {
		return nil, p.listErr
	}
	list := slices.Clone(p.listed)
	for _, xid := range slices.Sorted(maps.Keys(p.prepared)) {
		list = append(list, participant.Prepared{XID: xid, Owner: "app"})
	}
	return list, ctx.Err()
}

func (p *fakeParticipant) Check(ctx context.Context) error {
	p.mu.Lock()
	took, err := p.checkFor, p.checkErr
	p.checks = append(p.checks, time.Now())
	p.mu.Unlock()
	if took < 0 {
		<-ctx.Done()
	}
	if !sleep(ctx, took) {
		return ctx.Err()
	}
	return err
}

func (p *fakeParticipant) Close() error { return nil }

// setCheck defines the answer of Check.
func (p *fakeParticipant) setCheck(took time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checkFor, p.checkErr = took, err
}

// checked returns the times of the checks so far.
func (p *fakeParticipant) checked() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.checks)
}

// made returns the calls so far.
func (p *fakeParticipant) made() []recordedCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// busy returns the calls under way.
func (p *fakeParticipant) busy() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running
}

func (p *fakeParticipant) preparedCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.prepared)
}

// plainParticipant hides the fake's Prepare.
type plainParticipant struct{ participant.Participant }
