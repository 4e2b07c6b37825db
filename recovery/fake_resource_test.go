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
	"github.com/txmgr/txmgr/txn"
)

// resource models a participant and the ways in which real ones fail: it hangs,
// fails some times, answers too late, loses answers, forgets.
type resource struct {
	latency time.Duration

	mu       sync.Mutex
	prepared map[string]bool
	ended    map[string]participant.Ending // its proof
	listed   []participant.Prepared        // what else it claims to hold
	votes    map[txn.BranchID]txn.Vote     // answers to prepare; yes by default
	reason   string                        // of a no
	fault    func(visit) fault
	listErr  error
	calls    []visit
	counts   map[string]int
	running  int
	most     int // calls at once
	checkErr error
	checkFor time.Duration // it takes; negative: for ever
	checks   []time.Time
}

// visit is one call of Commit, Rollback, Prepare or Settle.
type visit struct {
	verb    Verb
	branch  participant.Branch
	at      time.Time
	n       int // of this verb for this branch, from 1
	outcome error
}

type fault uint8

const (
	none   fault = iota
	hang         // accepts, never answers
	fail         // error, no effect
	refuse       // the same, and says so
	late         // takes effect after the caller has given up
	lose         // takes effect, the answer is lost
	forget       // does not know the branch any more
	crash        // panics
	lie          // answers nonsense
)

var errDown = errors.New("connection refused")

func newResource(l *fakeLog, name string) *resource {
	res := &resource{
		latency: time.Millisecond, prepared: make(map[string]bool),
		ended: make(map[string]participant.Ending), counts: make(map[string]int), votes: make(map[txn.BranchID]txn.Vote),
	}
	l.parts[name] = res
	return res
}

func (p *resource) prepare(xid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prepared[xid] = true
}

func (p *resource) setFault(f func(visit) fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

// always gives the same fault to every call.
func always(f fault) func(visit) fault { return func(visit) fault { return f } }

func (p *resource) enter(verb Verb, b participant.Branch) (int, fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := verb.String() + b.XID
	p.counts[id]++
	c := visit{verb: verb, branch: b, at: time.Now(), n: p.counts[id]}
	p.calls = append(p.calls, c)
	p.running++
	p.most = max(p.most, p.running)
	if p.fault == nil {
		return len(p.calls) - 1, none
	}
	return len(p.calls) - 1, p.fault(c)
}

func (p *resource) leave(i int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	p.calls[i].outcome = err
}

// act is the common course of all calls: fault, latency, effect.
func (p *resource) act(ctx context.Context, verb Verb, b participant.Branch, effect func(fault)) (err error) {
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
	if f == forget && verb != Settle {
		delete(p.prepared, b.XID)
		delete(p.ended, b.XID)
	}
	effect(f)
	if f == late || f == lose {
		return errors.New("connection reset")
	}
	return nil
}

func (p *resource) end(ctx context.Context, verb Verb, b participant.Branch, as participant.Ending) (participant.Result, error) {
	var res participant.Result
	err := p.act(ctx, verb, b, func(f fault) {
		if p.prepared[b.XID] {
			delete(p.prepared, b.XID)
			p.ended[b.XID] = as
		}
		res = participant.Result{Ending: p.ended[b.XID], Detail: "model"}
		if res.Ending == 0 {
			res.Ending = participant.Unknown
			if as == participant.RolledBack {
				res.Ending = participant.RolledBack // it never prepared
			}
		}
		if f == lie {
			res.Ending = 77
		}
	})
	return res, err
}

func (p *resource) Commit(ctx context.Context, b participant.Branch) (participant.Result, error) {
	return p.end(ctx, Commit, b, participant.Committed)
}

func (p *resource) Rollback(ctx context.Context, b participant.Branch) (participant.Result, error) {
	return p.end(ctx, Rollback, b, participant.RolledBack)
}

func (p *resource) Prepare(ctx context.Context, b participant.Branch) (txn.Vote, string, error) {
	vote := txn.VotePrepared
	err := p.act(ctx, Prepare, b, func(fault) {
		if v := p.votes[b.ID]; v != 0 {
			vote = v
		}
		if vote == txn.VotePrepared {
			p.prepared[b.XID] = true
		}
	})
	return vote, p.reason, err
}

// Settle ends the application's session: what it has not committed is lost.
func (p *resource) Settle(ctx context.Context, b participant.Branch) (participant.Result, error) {
	var res participant.Result
	err := p.act(ctx, Settle, b, func(f fault) {
		if p.ended[b.XID] == 0 {
			p.ended[b.XID] = participant.RolledBack
		}
		res = participant.Result{Ending: p.ended[b.XID], Detail: "model"}
		switch f {
		case forget:
			res.Ending = participant.Unknown
		case lie:
			res.Ending = 77
		}
	})
	return res, err
}

func (p *resource) Prepared(ctx context.Context, _ string) ([]participant.Prepared, error) {
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

func (p *resource) Check(ctx context.Context) error {
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

func (p *resource) Close() error { return nil }

// setCheck says how it answers when it is checked.
func (p *resource) setCheck(took time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checkFor, p.checkErr = took, err
}

// checked gives when it was checked so far.
func (p *resource) checked() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.checks)
}

// made gives the calls so far.
func (p *resource) made() []visit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// busy gives the calls under way.
func (p *resource) busy() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running
}

func (p *resource) held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.prepared)
}

// plainParticipant hides the resource's Prepare.
type plainParticipant struct{ participant.Participant }
