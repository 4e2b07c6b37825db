package txntest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/txmgr/txmgr/txn"
)

// Fault is what goes wrong with one call to a [Manager] or to a [Database].
type Fault uint8

const (
	// Unreachable: the call does not arrive, and its caller knows.
	Unreachable Fault = iota + 1
	// ResponseLost: the call is carried out, and its caller does not learn of it.
	ResponseLost
	// Hang: the call does not arrive, and its caller waits until its context ends.
	Hang
)

var (
	errUnreachable  = errors.New("unreachable, as the test wants it")
	errResponseLost = errors.New("the answer was lost, as the test wants it")
)

// faults are the faults to inject, by call.
type faults struct {
	calls    []string        // the names that exist
	testDone <-chan struct{} // closed when the test has ended; no call hangs longer

	mu   sync.Mutex
	next map[string][]Fault // guarded by mu
}

func newFaults(test context.Context, calls ...string) *faults {
	return &faults{calls: calls, testDone: test.Done(), next: map[string][]Fault{}}
}

func (f *faults) add(call string, next []Fault) error {
	if !slices.Contains(f.calls, call) {
		return fmt.Errorf("no call %q: want one of %s", call, strings.Join(f.calls, ", "))
	}
	for _, fault := range next {
		if fault < Unreachable || fault > Hang {
			return fmt.Errorf("no fault %d", fault)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next[call] = append(f.next[call], next...)
	return nil
}

// inject carries out a call, with the next fault for it. The error is what the caller gets
// instead of an answer.
func (f *faults) inject(ctx context.Context, call string, do func()) error {
	f.mu.Lock()
	var fault Fault
	if queue := f.next[call]; len(queue) > 0 {
		fault, f.next[call] = queue[0], queue[1:]
	}
	f.mu.Unlock()
	switch fault {
	case Unreachable:
		return errUnreachable
	case Hang:
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-f.testDone:
			return errUnreachable
		}
	case ResponseLost:
		do()
		return errResponseLost
	}
	do()
	return nil
}

// withFaults carries out a call to the manager with its faults; every call goes through it.
func withFaults[T any](ctx context.Context, m *Manager, op string, id txn.ID, do func() (T, error)) (answer T, err error) {
	var arrived T
	lost := m.faults.inject(ctx, op, func() { arrived, err = do() })
	switch {
	case lost == nil:
		return arrived, err
	case op == "get", op == "wait", slices.Contains(sessionCalls, op), errors.Is(lost, errUnreachable):
		return answer, txn.Wrap(op, id, fmt.Errorf("%w: %w", txn.ErrUnavailable, lost))
	}
	return answer, txn.Wrap(op, id, fmt.Errorf("%w: %w", txn.ErrInDoubt, lost))
}
