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
		if n.stalled.Swap(nil) != nil {
			n.logger.Info("the node makes progress again")
		}
		return
	}
	err := fmt.Errorf("no progress for %v: %s", time.Duration(polls)*watchdogInterval, what)
	if n.stalled.Swap(&err) == nil {
		n.logger.Error("the node makes no progress: it refuses calls, and hands leadership over", "cause", err, "goroutines", w.dump())
	}
	// Twice, since between the end of its term and the answers to the entries of that a sound node looks like one at fault.
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
	case n.raft.State() == raft.Leader && n.countVoters() > 1 && polls%stallPolls == 0:
		w.stepDown(err)
	}
}

// isOwnFault reports whether a stall is this node's, and not that of nodes which do not store what a leader sends them.
func (w *watchdog) isOwnFault() bool {
	n := w.node
	commit := n.raft.CommitIndex()
	return n.raft.State() != raft.Leader || n.fsm.Steps()%2 == 1 || commit > n.raft.AppliedIndex() || n.raft.LastIndex() == commit
}

// stepDown has another node lead. While raft, or what is asked on the way, does not answer, no other node can be elected,
// since the heartbeats go on: then the process ends.
func (w *watchdog) stepDown(stall error) {
	n := w.node
	done := make(chan error, 1)
	if !n.background(func() {
		_ = n.raft.VerifyLeader().Error() // any answer will do, also that this node does not lead
		ctx, cancel := context.WithTimeout(n.baseCtx, raftAnswerTimeout)
		defer cancel()
		m, ok := n.transferTarget()
		if !ok {
			done <- errors.New("every other voter has been asked in vain")
			return
		}
		done <- n.transferNow(ctx, m)
	}) {
		return // the node is being closed
	}
	timer := time.NewTimer(raftAnswerTimeout)
	defer timer.Stop()
	select {
	case err := <-done:
		if err != nil {
			n.logger.Error("the node makes no progress, and leadership was not handed over", "error", err, "cause", stall)
		}
	case <-timer.C:
		w.failNode(fmt.Errorf("%w, and raft does not answer", stall))
	}
}

// dump writes the stacks of all goroutines next to the log, over those of an earlier stall, and says where. It does not wait
// for the disk: see end.
func (w *watchdog) dump() string {
	dir := w.node.conf.DataDir
	if dir == "" {
		return ""
	}
	select {
	case <-w.dumpDone:
	default:
		return "" // those of the stall before are not on the disk yet
	}
	name := filepath.Join(dir, "stall.txt")
	var stacks bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 2); err != nil {
		return err.Error()
	}
	w.dumpDone = make(chan struct{})
	go func(written chan<- struct{}) {
		defer close(written)
		_ = os.WriteFile(name, stacks.Bytes(), 0o600) // there is nobody to tell
	}(w.dumpDone)
	return name
}

// failNode fails the node, which ends the process. The stacks of the stall are on the disk by then, unless that hangs, too.
func (w *watchdog) failNode(err error) {
	timer := time.NewTimer(dumpTimeout)
	defer timer.Stop()
	select {
	case <-w.dumpDone:
	case <-timer.C:
	}
	w.node.fail(err)
}

// stallError gives why this node makes no progress; nil when it does.
func (n *Node) stallError() error {
	if p := n.stalled.Load(); p != nil {
		return fmt.Errorf("%w: this node makes %w", txn.ErrUnavailable, *p)
	}
	return nil
}
