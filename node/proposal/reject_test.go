package proposal

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// TestBatchRefusesAtTheEndOfATerm: callers that wait in the queue when the node ceases to lead are
// rejected, once, and nothing waits any more.
func TestBatchRefusesAtTheEndOfATerm(t *testing.T) {
	q := newTestQueue()
	p := &proposal{done: make(chan proposalResult, 1), pending: new(atomic.Int64)}
	if err := q.put(0, machine.Commit{}, p); err != nil {
		t.Fatal(err)
	}
	q.SetTerm(0)
	select {
	case o := <-p.done:
		if !errors.Is(o.err, txn.ErrUnavailable) {
			t.Errorf("answer %v, want ErrUnavailable", o.err)
		}
	default:
		t.Error("it waits on")
	}
	if len(q.batches) != 0 {
		t.Errorf("%d entries wait", len(q.batches))
	}
}

// TestTooLargeCallNamesTheLimit that it exceeds.
func TestTooLargeCallNamesTheLimit(t *testing.T) {
	giant := machine.Begin{}
	for range txn.MaxBranches {
		giant.Branches = append(giant.Branches, machine.Branch{Payload: make([]byte, txn.MaxPayload)})
	}
	err := newTestQueue().put(0, giant, &proposal{done: make(chan proposalResult, 1), pending: new(atomic.Int64)})
	if want := fmt.Sprintf("at most %d", raftfsm.MaxEntry-raftfsm.HeaderSize); !errors.Is(err, txn.ErrInvalid) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v; want ... %s", err, want)
	}
}
