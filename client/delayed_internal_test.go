package client

import (
	"testing"
	"testing/synctest"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
)

// TestDelayedCallsInTheQueue: a call whose caller does not wait causes no message for 5 ms, unless
// another call does.
func TestDelayedCallsInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline(nil)
		p.started = true // this test is the sender
		due := func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.queue) > p.delayed.queued
		}
		woken := func() bool {
			select {
			case <-p.wake:
				return true
			default:
				return false
			}
		}
		p.sendDelayed(&txmgrv1.Command{}, 1)
		p.sendDelayed(&txmgrv1.Command{}, 1)
		<-time.After(maxDelay - time.Nanosecond)
		synctest.Wait()
		if due() || woken() {
			t.Error("a message before the time of the delayed calls is over")
		}
		<-time.After(time.Nanosecond)
		synctest.Wait()
		if !due() || !woken() {
			t.Error("no message when it is over")
		}
		p.queue = nil

		p.sendDelayed(&txmgrv1.Command{}, 1)
		p.enqueue(&call{command: &txmgrv1.Command{}, done: make(chan struct{}, 1)})
		if !due() || !woken() || len(p.queue) != 2 {
			t.Error("the call of a caller that waits does not take the delayed one along")
		}
		<-time.After(maxDelay)
		synctest.Wait()
	})
}
