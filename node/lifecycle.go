package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/txmgr/txmgr/internal/asynclog"
)

// lifecycle is what belongs to the life of a coordinator, from [Open] to its failure or to
// [Node.Close].
type lifecycle struct {
	ctx    context.Context // ends when the node is being closed
	cancel context.CancelFunc
	ready  chan struct{} // closed when this node has led for the first time, or cannot
	close  func() error  // runs shutdown once

	failed   atomic.Pointer[error] // see [Node.fail]
	failOnce sync.Once
	stalled  atomic.Pointer[error] // set by the watchdog while the log makes no progress

	mu   sync.Mutex     // held while a background goroutine is started, and while ctx is ended
	done sync.WaitGroup // background goroutines
}

func newLifecycle() *lifecycle {
	l := &lifecycle{ready: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// closing is closed when the node is being closed.
func (l *lifecycle) closing() <-chan struct{} { return l.ctx.Done() }

// end ends the life: no background goroutine is started after it.
func (l *lifecycle) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel()
}

// background runs f in a goroutine that the shutdown waits for. It returns false when the shutdown
// has begun.
func (l *lifecycle) background(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return false
	}
	l.done.Go(f)
	return true
}

// setReady is called by one goroutine, as often as this node takes over.
func (l *lifecycle) setReady() {
	select {
	case <-l.ready:
	default:
		close(l.ready)
	}
}

// failure returns why the log has failed, or Open has; nil while there was no failure.
func (l *lifecycle) failure() error {
	if p := l.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// awaitLeadership waits until this node leads for the first time.
func (n *Node) awaitLeadership(ctx context.Context) error {
	select {
	case <-n.life.ready:
		return n.life.failure()
	case <-ctx.Done():
		return fmt.Errorf("starting the coordinator: %w", context.Cause(ctx))
	}
}

// fail receives every failure of the log; only the first one counts.
func (n *Node) fail(err error) {
	n.life.failOnce.Do(func() {
		n.life.failed.Store(&err)
		if l := n.terms.present.Load(); l != nil {
			l.leading.Store(false)
		}
		n.conf.OnFailure(err) // first: the failure may block everything else
		n.notifier.WakeAll()
	})
}

// exitProcess is the default of [Config.OnFailure].
func (n *Node) exitProcess(err error) {
	n.conf.Logger.Error("the coordinator cannot go on: the process ends, so that nothing is acknowledged that may be lost and another node can lead", "error", err)
	asynclog.Flush(n.conf.Logger)
	os.Exit(1)
}

// Close stops the coordinator: calls in flight are answered, workers of phase two finish their
// current call, and the log is closed. The node stays a member of its cluster.
func (n *Node) Close() error { return n.life.close() }

func (n *Node) shutdown() error {
	defer asynclog.Flush(n.conf.Logger)
	n.proposals.Flush(closingLeaderTimeout)
	n.StepDown()
	n.life.end()
	n.notifier.Close()
	cancelIsolation := n.isolateAfterTimeout()
	n.life.done.Wait() // gives up the leadership first
	n.proposals.Close()
	n.readIndex.Close() // raft does not answer requests that arrive while it stops
	cancelIsolation()
	// Before raft: it does not answer requests of other nodes either while it stops, and it
	// waits for a node that is suspended in the middle of a snapshot until its connection ends.
	err := n.cluster.Close()
	if stopped := n.raft.Shutdown().Error(); stopped != nil {
		err = errors.Join(err, fmt.Errorf("stopping raft: %w", stopped))
	}
	return errors.Join(err, n.participants.Close(), n.env.Log.Close())
}

// setupFailed ends Open with an error: the cluster does not match the configuration.
func (n *Node) setupFailed(err error) {
	if n.life.failed.CompareAndSwap(nil, &err) {
		n.conf.Logger.Error("cannot take over", "error", err)
	}
	n.life.setReady()
}
