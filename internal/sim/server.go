package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// server is what all participants share: the connection to them, and its faults.
type server struct {
	w     *World
	name  string
	index int
	rng   *rng

	mu          sync.Mutex // guards all below, and the state of what embeds it
	up          bool
	restarts    int           // the number of its starts
	hangRate    int           // of 1,000 requests that hang for seconds
	lossRate    int           // of 1,000 answers that are lost
	maxDelay    time.Duration // the longest delay
	effectCount map[txn.ID]int

	inFlight atomic.Int64 // requests that have not arrived
}

func newServer(w *World, index int, name string) server {
	return server{
		w: w, name: name, index: index, rng: newRNG(w.plan.Seed, 50+uint64(index)),
		up: true, restarts: 1, maxDelay: time.Millisecond, effectCount: map[txn.ID]int{},
	}
}

var errDown = errors.New("sim: the server is not there")

// answer is the result of a call. It is sent on a channel alone: a call whose caller has given up
// continues concurrently with that caller.
type answer[T any] struct {
	v   T
	err error
}

// exchange carries a request to the server, and the answer back. Once it is sent it is carried out,
// whatever its caller does. caller is nil for an application. do holds mu, and writes to nothing
// that is read without it.
func exchange[T any](ctx context.Context, s *server, caller *process, what string, do func() (T, error)) (T, error) {
	var none T
	if err := s.refuse(ctx, caller); err != nil {
		return none, &participant.NoEffectError{Err: err}
	}
	s.mu.Lock()
	way, held, deaf := s.maxDelay, s.hangRate, s.lossRate
	s.mu.Unlock()
	there, back := s.rng.between(100*time.Microsecond, way), s.rng.between(100*time.Microsecond, way)
	if held > 0 && s.rng.n(1000) < held {
		there = s.rng.between(time.Second, 20*time.Second)
		s.w.countFault(s.name + " hangs")
		s.w.tracef("%s at %s hangs for %v", what, s.name, there.Round(time.Millisecond))
	}
	got := make(chan answer[T], 1)
	s.inFlight.Add(1)
	s.w.all.Go(func() {
		sleep(there)
		s.mu.Lock()
		a := answer[T]{err: errDown}
		if s.up {
			a.v, a.err = do()
		}
		s.mu.Unlock()
		s.inFlight.Add(-1)
		if deaf > 0 && s.rng.n(1000) < deaf {
			s.w.countFault(s.name + " answer lost")
			a = answer[T]{err: fmt.Errorf("%w from %s", errLost, s.name)}
		}
		sleep(back)
		got <- a
	})
	select {
	case a := <-got:
		if caller != nil {
			caller.host.gate.pass()
		}
		if errors.Is(a.err, errDown) {
			return none, &participant.NoEffectError{Err: a.err}
		}
		return a.v, a.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// send is an exchange that returns only an error.
func (s *server) send(ctx context.Context, caller *process, what string, do func() error) error {
	_, err := exchange(ctx, s, caller, what, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// refuse returns why a request cannot be sent; nil if it can.
func (s *server) refuse(ctx context.Context, caller *process) error {
	if caller == nil {
		return ctx.Err()
	}
	caller.host.gate.pass()
	if s.cutFrom(caller.host.index) {
		s.w.countFault(s.name + " out of reach")
		if s.rng.oneIn(2) {
			return errRefused
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	select {
	case <-caller.dead:
		return errDown // a crashed node sends nothing
	default:
		return ctx.Err()
	}
}

func (s *server) cutFrom(host int) bool {
	s.w.net.mu.Lock()
	defer s.w.net.mu.Unlock()
	return s.w.net.reads[[2]int{host, s.index}]
}

// configure sets the faults of the connection.
func (s *server) configure(set func(*server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set(s)
}

// effect counts an effect of a transaction's work. mu is held.
func (s *server) effect(id txn.ID) { s.effectCount[id]++ }

// effects returns how often the work of a transaction has taken effect.
func (s *server) effects(id txn.ID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effectCount[id]
}

// poll repeats look, as participants do, until a call's timeout has passed.
func poll(ctx context.Context, look func(context.Context) (r participant.Result, again, err error)) (participant.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		r, again, err := look(ctx)
		if err != nil || again == nil {
			return r, err
		}
		if !sleepCtx(ctx, 5*time.Millisecond) {
			return participant.Result{}, again
		}
	}
}
