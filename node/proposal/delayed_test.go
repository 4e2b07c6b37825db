package proposal

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn/machine"
)

// TestDelayedCommands: a command whose caller does not wait leaves with the next one, or after
// 5 ms, and does not make an entry of its own before.
func TestDelayedCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue()
		delay := func() {
			t.Helper()
			if err := q.ProposeDelayed(machine.ReportCompletion{}); err != nil {
				t.Fatal(err)
			}
		}
		delay()
		delay()
		if q.signaled() {
			t.Error("a delayed command woke the sender")
		}
		q.wantNext(t, nothing)
		<-time.After(maxDelay - time.Nanosecond)
		synctest.Wait()
		q.wantNext(t, nothing)
		<-time.After(time.Nanosecond)
		synctest.Wait()
		if !q.signaled() {
			t.Error("the time of the delayed commands is over, and the sender was not woken")
		}
		q.wantNext(t, 2)
		q.entryCompleted()

		delay()
		q.signaled()
		q.mustPut(t, machine.Commit{})
		if !q.signaled() {
			t.Error("the first command whose caller waits did not wake the sender")
		}
		q.wantNext(t, 2)
		q.entryCompleted()

		delay()
		q.RequestTick()
		q.wantNext(t, 1) // with the tick
		q.entryCompleted()

		<-time.After(maxDelay) // of those that have left
		synctest.Wait()
		delay()
		q.wantNext(t, nothing)
		<-time.After(maxDelay)
		synctest.Wait()
		q.wantNext(t, 1)
	})
}

// TestFlush: the delayed commands leave at once, and Flush returns when they have their answer, or
// after its timeout. Without any it returns at once.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue()
		began := time.Now()
		q.Flush(time.Second)
		if err := q.ProposeDelayed(machine.ReportCompletion{}); err != nil {
			t.Fatal(err)
		}
		go func() {
			<-q.wake
			b := q.next()
			if b == nil {
				t.Error("nothing leaves")
				return
			}
			<-time.After(time.Millisecond)
			b.answer(make([]machine.Result, b.commands), nil)
			q.entryCompleted()
		}()
		q.Flush(time.Second)
		q.Flush(time.Second)
		if took := time.Since(began); took != time.Millisecond {
			t.Errorf("returned after %v, want %v", took, time.Millisecond)
		}
		if err := q.ProposeDelayed(machine.ReportCompletion{}); err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		q.Flush(time.Second) // nothing takes it
		if took := time.Since(began); took != time.Second {
			t.Errorf("returned after %v, want %v", took, time.Second)
		}
	})
}

// TestDelayedCommandsAreLostWithTheTerm: they are refused as others are, and never proposed in
// another term.
func TestDelayedCommandsAreLostWithTheTerm(t *testing.T) {
	q := newTestQueue()
	if err := q.ProposeDelayed(machine.ReportCompletion{}); err != nil {
		t.Fatal(err)
	}
	q.SetTerm(0)
	if n := q.stats.pending.Load(); n != 0 || len(q.batches) != 0 {
		t.Errorf("%d wait for an answer, %d batches are left", n, len(q.batches))
	}
	if err := q.ProposeDelayed(machine.ReportCompletion{}); err == nil {
		t.Error("taken by a node that does not lead")
	}
	if n := q.stats.pending.Load(); n != 0 {
		t.Errorf("%d wait for an answer", n)
	}
}
