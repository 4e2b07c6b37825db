package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
)

// TestCallsExpire: a call without a deadline of its own ends when its time is over, at most 10 ms
// later and never earlier, in the queue and on its way: only the latter may have been executed.
// The other calls go on, and when none is left nothing is looked at.
func TestCallsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline(&Client{cfg: Config{Address: "here"}})
		p.started = true // this test is the sender
		const timeout = 3*time.Second + 123*time.Microsecond
		put := func(expires time.Time) *call {
			k := &call{command: &txmgrv1.Command{}, done: make(chan struct{}, 1), expires: expires}
			p.enqueue(k)
			return k
		}
		leave := func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, k := range p.queue {
				k.phase, p.pending[k.command.Seq] = sent, k
			}
			p.queue = nil
		}
		onWay := put(time.Now().Add(timeout))
		patient := put(time.Now().Add(time.Minute))
		never := put(time.Time{})
		leave()
		waiting := put(time.Now().Add(timeout))

		<-time.After(timeout - time.Nanosecond)
		synctest.Wait()
		for _, k := range []*call{onWay, waiting} {
			if len(k.done) > 0 {
				t.Errorf("the call ended before its time was over: %v", k.err)
			}
		}
		<-time.After(sweepInterval + time.Nanosecond)
		synctest.Wait()
		for _, k := range []*call{onWay, waiting} {
			l := (*transportError)(nil)
			if len(k.done) != 1 || !errors.As(k.err, &l) || !errors.Is(k.err, context.DeadlineExceeded) || l.sent != (k == onWay) {
				t.Errorf("on its way: %v; answered %d times: %v", k == onWay, len(k.done), k.err)
			}
		}
		p.mu.Lock()
		if len(p.queue) != 0 || len(p.pending) != 2 {
			t.Errorf("%d are in the queue, %d on their way; want the two whose time is not over", len(p.queue), len(p.pending))
		}
		p.mu.Unlock()
		<-time.After(time.Minute)
		synctest.Wait()
		if len(patient.done) != 1 || len(never.done) != 0 {
			t.Errorf("after a minute: %d and %d answers; want one to the call that expires then", len(patient.done), len(never.done))
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.sweeping {
			t.Error("the pipeline looks at calls that do not expire")
		}
	})
}
