package proposal

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// atTerm is a raft in a term, to which nothing is proposed.
type atTerm struct {
	raftLog

	term uint64
}

func (a atTerm) CurrentTerm() uint64 { return a.term }

// newTestQueue returns a queue whose entries a test takes and completes itself.
func newTestQueue() *Queue {
	return &Queue{term: 1, raft: atTerm{term: 1}, wake: make(chan struct{}, 1)}
}

func (q *Queue) mustPut(t *testing.T, commands ...machine.Command) {
	t.Helper()
	for _, c := range commands {
		if err := q.put(0, c, &proposal{done: make(chan proposalResult, 1), pending: new(atomic.Int64)}); err != nil {
			t.Fatal(err)
		}
	}
}

// signaled reports whether the sender was woken, and resets that.
func (q *Queue) signaled() bool {
	select {
	case <-q.wake:
		return true
	default:
		return false
	}
}

func (q *Queue) wantNext(t *testing.T, commands int) {
	t.Helper()
	switch b := q.next(); {
	case b == nil && commands >= 0:
		t.Fatalf("nothing leaves; want an entry of %d commands", commands)
	case b != nil && b.commands != commands:
		t.Fatalf("an entry of %d commands leaves; want %d", b.commands, commands)
	}
}

// nothing is what wantNext expects when no entry may be proposed.
const nothing = -1

// Callers that wait in a term that is over for raft are rejected, although the node has not given
// up leadership: one of them may be the goroutine that gives it up.
func TestBatchRefusesWhenTheTermIsOver(t *testing.T) {
	q := newTestQueue()
	p := &proposal{done: make(chan proposalResult, 1), pending: new(atomic.Int64)}
	if err := q.put(0, machine.Commit{}, p); err != nil {
		t.Fatal(err)
	}
	q.raft = atTerm{term: 2}
	q.wantNext(t, nothing)
	select {
	case o := <-p.done:
		if !errors.Is(o.err, txn.ErrUnavailable) {
			t.Errorf("answer %v, want ErrUnavailable", o.err)
		}
	default:
		t.Error("it waits on")
	}
}

// An entry waits for the one before it unless it is as large, and the command that makes it as
// large wakes the sender.
func TestBatchWaitsUntilAsLargeAsTheLast(t *testing.T) {
	q := newTestQueue()
	c := machine.Commit{}
	q.mustPut(t, c, c, c)
	if !q.signaled() {
		t.Error("the first command did not wake the sender")
	}
	q.wantNext(t, 3)
	q.mustPut(t, c, c)
	q.signaled() // by the first of a batch, in vain
	q.wantNext(t, nothing)
	q.mustPut(t, c)
	if !q.signaled() {
		t.Error("the entry is as large as the last, and the sender was not woken")
	}
	q.wantNext(t, 3)
	q.mustPut(t, c)
	q.wantNext(t, nothing)
	q.entryCompleted()
	q.wantNext(t, nothing) // the second is still on its way
	q.signaled()
	q.entryCompleted()
	if !q.signaled() {
		t.Error("the log is free, and the sender was not woken")
	}
	q.wantNext(t, 1)
}

// A batch that takes no more does not wait, however few commands are in it.
func TestFullBatchLeaves(t *testing.T) {
	q := newTestQueue()
	for range 100 {
		q.mustPut(t, machine.Commit{})
	}
	q.wantNext(t, 100)
	big := machine.Enlist{Branch: machine.Branch{Participant: "bank", Payload: make([]byte, txn.MaxPayload)}}
	for range maxBatchBytes / txn.MaxPayload {
		q.mustPut(t, big)
	}
	q.wantNext(t, nothing)
	q.signaled()
	q.mustPut(t, big)
	if !q.signaled() {
		t.Error("a batch is full, and the sender was not woken")
	}
	q.wantNext(t, maxBatchBytes/txn.MaxPayload)
	q.wantNext(t, nothing)
}

// A tick that is wanted while an entry is on its way is written when that has
// landed, alone or with whatever came meanwhile.
func TestTickIsNotForgotten(t *testing.T) {
	q := newTestQueue()
	q.mustPut(t, machine.Commit{})
	q.wantNext(t, 1)
	q.RequestTick()
	q.wantNext(t, nothing)
	q.entryCompleted()
	q.wantNext(t, 0)
	q.entryCompleted()
	q.wantNext(t, nothing)

	q.RequestTick()
	q.mustPut(t, machine.Commit{})
	q.wantNext(t, 1)
	q.entryCompleted()
	q.wantNext(t, nothing)
}

// TestLargeCommandsAreRefusedAlone: a command that does not fit goes into the next
// entry, and one that fits none is refused alone.
func TestLargeCommandsAreRefusedAlone(t *testing.T) {
	q := newTestQueue()
	small := machine.Commit{}
	large := machine.Enlist{Branch: machine.Branch{Payload: make([]byte, maxBatchBytes-100)}}
	giant := machine.Begin{}
	for range txn.MaxBranches {
		giant.Branches = append(giant.Branches, machine.Branch{Payload: make([]byte, txn.MaxPayload)})
	}
	half := machine.Begin{Branches: giant.Branches[:60]} // just fits, alone
	q.mustPut(t, small, large)
	if err := q.put(0, giant, &proposal{done: make(chan proposalResult, 1), pending: new(atomic.Int64)}); !errors.Is(err, txn.ErrInvalid) {
		t.Errorf("a command of 16 MiB: %v", err)
	}
	q.mustPut(t, half, small)
	sizes := []int{}
	for _, b := range q.batches {
		if len(b.buf) > raftfsm.MaxEntry {
			t.Errorf("an entry of %d bytes", len(b.buf))
		}
		if err := raftfsm.FinishEntry(b.buf, 1, 1, b.commands); err != nil {
			t.Error(err)
		}
		if e, err := raftfsm.DecodeEntry(b.buf); err != nil || len(e.Commands) != len(b.callers) {
			t.Errorf("an entry of %d commands for %d callers: %v", len(e.Commands), len(b.callers), err)
		}
		sizes = append(sizes, b.commands)
	}
	if !slices.Equal(sizes, []int{2, 1, 1}) {
		t.Errorf("entries of %v commands", sizes)
	}
}

// TestEntriesOfTicksAreCountedApart: entries without a command, and no others.
func TestEntriesOfTicksAreCountedApart(t *testing.T) {
	var q Queue
	for _, commands := range []int{0, 1, 0, 0, 2} {
		q.count(&batch{commands: commands})
	}
	if entries, ticks := q.stats.entries.Load(), q.stats.tickEntries.Load(); entries != 5 || ticks != 3 {
		t.Errorf("%d entries, %d of them of ticks; want 5 and 3", entries, ticks)
	}
}

// TestNothingIsStampedInAnotherTerm: the clock of a node that has not applied all entries
// may be ahead of the one by which deadlines were given meanwhile.
func TestNothingIsStampedInAnotherTerm(t *testing.T) {
	q := newTestQueue()
	q.raft = atTerm{term: 2}
	q.mustPut(t, machine.Commit{})
	q.wantNext(t, nothing)
	q.SetTerm(2)
	q.mustPut(t, machine.Commit{}) // the one before was refused
	q.wantNext(t, 1)
}

// TestADeadlineIsOfItsTerm: what was computed from the clock of one term is not proposed
// in another, where the same tick may be earlier.
func TestADeadlineIsOfItsTerm(t *testing.T) {
	q := newTestQueue()
	q.SetTerm(3)
	p := &proposal{done: make(chan proposalResult, 1), pending: new(atomic.Int64)}
	if err := q.put(2, machine.Begin{}, p); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("a deadline of term 2 in term 3: %v", err)
	}
	if err := q.put(3, machine.Begin{}, p); err != nil {
		t.Error(err)
	}
}
