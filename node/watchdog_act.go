package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/txn"
)

func (w *watchdog) act(what string, polls int) {
	n := w.node
	if polls < stallPolls {
		w.own = 0
		if n.life.stalled.Swap(nil) != nil {
			n.conf.Logger.Info("the node makes progress again")
		}
		return
	}
	err := fmt.Errorf("no progress for %v: %s", time.Duration(polls)*watchdogInterval, what)
	if n.life.stalled.Swap(&err) == nil {
		n.conf.Logger.Error("the node makes no progress: it refuses calls, and hands leadership over", "cause", err, "goroutines", w.dump())
	}
	// Twice, since a healthy leader whose term ends looks faulty until its entries of that term are
	// answered.
	if w.own++; polls < exitPolls || !w.isOwnFault() {
		w.own = 0
	}
	switch {
	case w.locked.polls >= stallPolls:
		if what != w.locked.what {
			err = fmt.Errorf("%w, and %s", err, w.locked.what)
		}
		w.failNode(err)
	case w.own > 1:
		w.failNode(err)
	case n.raft.State() == raft.Leader && n.cluster.Voters() > 1 && polls%stallPolls == 0:
		w.stepDown(err)
	}
}

// isOwnFault reports whether this node causes a stall, and not other nodes that do not store what
// the leader sends them.
func (w *watchdog) isOwnFault() bool {
	n := w.node
	commit := n.raft.CommitIndex()
	return n.raft.State() != raft.Leader || n.fsm.Steps()%2 == 1 || commit > n.raft.AppliedIndex() || n.raft.LastIndex() == commit
}

// stepDown transfers leadership to another node. While raft, or a call made on the way, does not
// answer, no other node can be elected, since the heartbeats continue: then the process ends.
func (w *watchdog) stepDown(stall error) {
	n := w.node
	done := make(chan error, 1)
	if !n.life.background(func() {
		_ = n.raft.VerifyLeader().Error() // any answer will do, also that this node does not lead
		ctx, cancel := context.WithTimeout(n.life.ctx, raftAnswerTimeout)
		defer cancel()
		m, ok := n.cluster.TransferTarget()
		if !ok {
			done <- errors.New("every other voter has been asked in vain")
			return
		}
		done <- n.cluster.TransferNow(ctx, m)
	}) {
		return // the node is being closed
	}
	timer := time.NewTimer(raftAnswerTimeout)
	defer timer.Stop()
	select {
	case err := <-done:
		if err != nil {
			n.conf.Logger.Error("the node makes no progress, and leadership was not handed over", "error", err, "cause", stall)
		}
	case <-timer.C:
		w.failNode(fmt.Errorf("%w, and raft does not answer", stall))
	}
}

// dump writes the stacks of all goroutines next to the log, in place of those of an earlier stall,
// and returns the path. It does not wait for the disk: see failNode.
func (w *watchdog) dump() string {
	dir := w.node.conf.DataDir
	if dir == "" {
		return ""
	}
	select {
	case <-w.dumpDone:
	default:
		return "" // those of the previous stall are not on disk yet
	}
	name := filepath.Join(dir, "stall.txt")
	var stacks bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 2); err != nil {
		return err.Error()
	}
	w.dumpDone = make(chan struct{})
	go func(written chan<- struct{}) {
		defer close(written)
		_ = os.WriteFile(name, stacks.Bytes(), 0o600) // the error cannot be reported any more
	}(w.dumpDone)
	return name
}

// failNode fails the node, which ends the process. By then the stacks of the stall are on disk,
// unless that hangs, too.
func (w *watchdog) failNode(err error) {
	timer := time.NewTimer(dumpTimeout)
	defer timer.Stop()
	select {
	case <-w.dumpDone:
	case <-timer.C:
	}
	w.node.fail(err)
}

// stallError returns why this node makes no progress; nil when it does.
func (n *Node) stallError() error {
	if p := n.life.stalled.Load(); p != nil {
		return fmt.Errorf("%w: this node makes %w", txn.ErrUnavailable, *p)
	}
	return nil
}
