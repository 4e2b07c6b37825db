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

func (b *Queue) mustPut(t *testing.T, commands ...machine.Command) {
	t.Helper()
	for _, c := range commands {
		if err := b.put(0, c, &proposal{done: make(chan proposalResult, 1), pending: new(atomic.Int64)}); err != nil {
			t.Fatal(err)
		}
	}
}

// signaled reports whether the sender was woken, and resets that.
func (b *Queue) signaled() bool {
	select {
	case <-b.wake:
		return true
	default:
		return false
	}
}

func (b *Queue) wantNext(t *testing.T, commands int) {
	t.Helper()
	switch l := b.next(); {
	case l == nil && commands >= 0:
		t.Fatalf("nothing leaves; want an entry of %d commands", commands)
	case l != nil && l.commands != commands:
		t.Fatalf("an entry of %d commands leaves; want %d", l.commands, commands)
	}
}

// nothing is what wantNext expects when no entry may be proposed.
const nothing = -1

// Callers that wait in a term that is over for raft are rejected, although the node has not given
// up leadership: one of them may be the goroutine that gives it up.
func TestBatchRefusesWhenTheTermIsOver(t *testing.T) {
	b := newTestQueue()
	p := &proposal{done: make(chan proposalResult, 1), pending: new(atomic.Int64)}
	if err := b.put(0, machine.Commit{}, p); err != nil {
		t.Fatal(err)
	}
	b.raft = atTerm{term: 2}
	b.wantNext(t, nothing)
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
	b := newTestQueue()
	c := machine.Commit{}
	b.mustPut(t, c, c, c)
	if !b.signaled() {
		t.Error("the first command woke nobody")
	}
	b.wantNext(t, 3)
	b.mustPut(t, c, c)
	b.signaled() // by the first of a batch, in vain
	b.wantNext(t, nothing)
	b.mustPut(t, c)
	if !b.signaled() {
		t.Error("the entry is as large as the last, and nobody woke")
	}
	b.wantNext(t, 3)
	b.mustPut(t, c)
	b.wantNext(t, nothing)
	b.entryCompleted()
	b.wantNext(t, nothing) // the second is still on its way
	b.signaled()
	b.entryCompleted()
	if !b.signaled() {
		t.Error("the log is free, and nobody woke")
	}
	b.wantNext(t, 1)
}

// A batch that takes no more does not wait, however few commands are in it.
func TestFullBatchLeaves(t *testing.T) {
	b := newTestQueue()
	for range 100 {
		b.mustPut(t, machine.Commit{})
	}
	b.wantNext(t, 100)
	big := machine.Enlist{Branch: machine.Branch{Participant: "bank", Payload: make([]byte, txn.MaxPayload)}}
	for range maxBatchBytes / txn.MaxPayload {
		b.mustPut(t, big)
	}
	b.wantNext(t, nothing)
	b.signaled()
	b.mustPut(t, big)
	if !b.signaled() {
		t.Error("a batch is full, and nobody woke")
	}
	b.wantNext(t, maxBatchBytes/txn.MaxPayload)
	b.wantNext(t, nothing)
}

// A tick that is wanted while an entry is on its way is written when that has
// landed, alone or with whatever came meanwhile.
func TestTickIsNotForgotten(t *testing.T) {
	b := newTestQueue()
	b.mustPut(t, machine.Commit{})
	b.wantNext(t, 1)
	b.RequestTick()
	b.wantNext(t, nothing)
	b.entryCompleted()
	b.wantNext(t, 0)
	b.entryCompleted()
	b.wantNext(t, nothing)

	b.RequestTick()
	b.mustPut(t, machine.Commit{})
	b.wantNext(t, 1)
	b.entryCompleted()
	b.wantNext(t, nothing)
}

// TestLargeCommandsAreRefusedAlone: a command that does not fit goes into the next
// entry, and one that fits none is refused alone.
func TestLargeCommandsAreRefusedAlone(t *testing.T) {
	b := newTestQueue()
	small := machine.Commit{}
	large := machine.Enlist{Branch: machine.Branch{Payload: make([]byte, maxBatchBytes-100)}}
	giant := machine.Begin{}
	for range txn.MaxBranches {
		giant.Branches = append(giant.Branches, machine.Branch{Payload: make([]byte, txn.MaxPayload)})
	}
	half := machine.Begin{Branches: giant.Branches[:60]} // just fits, alone
	b.mustPut(t, small, large)
	if err := b.put(0, giant, &proposal{done: make(chan proposalResult, 1), pending: new(atomic.Int64)}); !errors.Is(err, txn.ErrInvalid) {
		t.Errorf("a command of 16 MiB: %v", err)
	}
	b.mustPut(t, half, small)
	sizes := []int{}
	for _, l := range b.queue {
		if len(l.buf) > raftfsm.MaxEntry {
			t.Errorf("an entry of %d bytes", len(l.buf))
		}
		if err := raftfsm.FinishEntry(l.buf, 1, 1, l.commands); err != nil {
			t.Error(err)
		}
		if e, err := raftfsm.DecodeEntry(l.buf); err != nil || len(e.Commands) != len(l.callers) {
			t.Errorf("an entry of %d commands for %d callers: %v", len(e.Commands), len(l.callers), err)
		}
		sizes = append(sizes, l.commands)
	}
	if !slices.Equal(sizes, []int{2, 1, 1}) {
		t.Errorf("entries of %v commands", sizes)
	}
}

// TestEntriesOfTicksAreCountedApart: entries without a command, and no others.
func TestEntriesOfTicksAreCountedApart(t *testing.T) {
	var b Queue
	for _, commands := range []int{0, 1, 0, 0, 2} {
		b.count(&batch{commands: commands})
	}
	if entries, ticks := b.stats.entries.Load(), b.stats.tickEntries.Load(); entries != 5 || ticks != 3 {
		t.Errorf("%d entries, %d of them of ticks; want 5 and 3", entries, ticks)
	}
}

// TestNothingIsStampedInAnotherTerm: the clock of a node that has not applied all entries
// may be ahead of the one by which deadlines were given meanwhile.
func TestNothingIsStampedInAnotherTerm(t *testing.T) {
	b := newTestQueue()
	b.raft = atTerm{term: 2}
	b.mustPut(t, machine.Commit{})
	b.wantNext(t, nothing)
	b.SetTerm(2)
	b.mustPut(t, machine.Commit{}) // the one before was refused
	b.wantNext(t, 1)
}

// TestADeadlineIsOfItsTerm: what was computed from the clock of one term is not proposed
// in another, where the same tick may be earlier.
func TestADeadlineIsOfItsTerm(t *testing.T) {
	b := newTestQueue()
	b.SetTerm(3)
	p := &proposal{done: make(chan proposalResult, 1), pending: new(atomic.Int64)}
	if err := b.put(2, machine.Begin{}, p); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("a deadline of term 2 in term 3: %v", err)
	}
	if err := b.put(3, machine.Begin{}, p); err != nil {
		t.Error(err)
	}
}
