package raftfsm

import (
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn/machine"
)

// TestStepsAreOddWhileTheStateChanges, whatever comes of the entry, and even between.
func TestStepsAreOddWhileTheStateChanges(t *testing.T) {
	entry := func(tick survival.Tick) []byte {
		b, err := EncodeEntry(machine.Entry{Tick: tick})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var f *FSM
	during := map[string]uint64{}
	f = New(Config{
		OnApply:   func(Position, *machine.Effects, survival.Tick) { during["apply"] = f.Steps() },
		OnFailure: func(error) { during["failure"] = f.Steps() },
	})
	step := func(what string, do func(), seen string) {
		t.Helper()
		before := f.Steps()
		do()
		if after := f.Steps(); before%2 != 0 || after != before+2 {
			t.Errorf("%s: %d before, %d after", what, before, after)
		}
		if seen != "" && during[seen] != before+1 {
			t.Errorf("%s: %d meanwhile, %d before", what, during[seen], before)
		}
	}
	step("apply", func() {
		f.Apply(&raft.Log{Index: 1, Term: 1, Data: entry(1)})
	}, "apply")
	step("snapshot", func() {
		s, err := f.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		s.Release()
	}, "")
	step("a bad entry", func() { f.Apply(&raft.Log{Index: 2, Term: 1, Data: []byte{255}}) }, "failure")
	step("an entry after it", func() { f.Apply(&raft.Log{Index: 3, Term: 1, Data: entry(2)}) }, "")
	step("a snapshot after it", func() {
		if _, err := f.Snapshot(); err == nil {
			t.Error("a snapshot of a state with a gap")
		}
	}, "")
}

// TestReadable: a reader does not make the state unreadable for others; a writer does, and so does one that waits for a
// reader. It asks in a goroutine of its own: one that has the lock must not try it again.
func TestReadable(t *testing.T) {
	f := New(Config{})
	readable := func() bool {
		answer := make(chan bool)
		go func() { answer <- f.Readable() }()
		return <-answer
	}
	if !readable() {
		t.Error("not readable at rest")
	}
	f.View(func(*machine.Machine) {
		if !readable() {
			t.Error("not readable beside a reader")
		}
	})
	f.mu.Lock()
	if readable() {
		t.Error("readable while the state changes")
	}
	f.mu.Unlock()

	f.mu.RLock()
	var wg sync.WaitGroup
	wg.Go(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
	})
	for deadline := time.Now().Add(time.Minute); readable(); { // until the writer waits
		if time.Now().After(deadline) {
			t.Error("readable while a writer waits")
			break
		}
	}
	f.mu.RUnlock()
	wg.Wait()
	if !readable() {
		t.Error("not readable after a writer")
	}
}
