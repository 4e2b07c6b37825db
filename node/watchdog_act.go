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

func (w *watchdog) act(what string, looks int) {
	n := w.node
	if looks < stallLooks {
		w.own = 0
		if n.stalled.Swap(nil) != nil {
			n.logger.Info("the node makes progress again")
		}
		return
	}
	err := fmt.Errorf("no progress for %v: %s", time.Duration(looks)*watchEvery, what)
	if n.stalled.Swap(&err) == nil {
		n.logger.Error("the node makes no progress: it refuses calls, and hands leadership over", "cause", err, "goroutines", w.dump())
	}
	// Twice, since between the end of its term and the answers to the entries of that a sound node looks like one at fault.
	if w.own++; looks < endLooks || !w.ownFault() {
		w.own = 0
	}
	switch {
	case w.locked.looks >= stallLooks:
		if what != w.locked.what {
			err = fmt.Errorf("%w, and %s", err, w.locked.what)
		}
		w.end(err)
	case w.own > 1:
		w.end(err)
	case n.raft.State() == raft.Leader && n.voters() > 1 && looks%stallLooks == 0:
		w.stepDown(err)
	}
}

// ownFault reports whether a stall is this node's, and not that of nodes which do not store what a leader sends them.
func (w *watchdog) ownFault() bool {
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
		ctx, cancel := context.WithTimeout(n.life, answerWithin)
		defer cancel()
		m, ok := n.heir()
		if !ok {
			done <- errors.New("every other voter has been asked in vain")
			return
		}
		done <- n.handOver(ctx, m)
	}) {
		return // the node is being closed
	}
	timer := time.NewTimer(answerWithin)
	defer timer.Stop()
	select {
	case err := <-done:
		if err != nil {
			n.logger.Error("the node makes no progress, and leadership was not handed over", "error", err, "cause", stall)
		}
	case <-timer.C:
		w.end(fmt.Errorf("%w, and raft does not answer", stall))
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
	case <-w.written:
	default:
		return "" // those of the stall before are not on the disk yet
	}
	name := filepath.Join(dir, "stall.txt")
	var stacks bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 2); err != nil {
		return err.Error()
	}
	w.written = make(chan struct{})
	go func(written chan<- struct{}) {
		defer close(written)
		_ = os.WriteFile(name, stacks.Bytes(), 0o600) // there is nobody to tell
	}(w.written)
	return name
}

// end fails the node, which ends the process. The stacks of the stall are on the disk by then, unless that hangs, too.
func (w *watchdog) end(err error) {
	timer := time.NewTimer(dumpWithin)
	defer timer.Stop()
	select {
	case <-w.written:
	case <-timer.C:
	}
	w.node.fail(err)
}

// stall gives why this node makes no progress; nil when it does.
func (n *Node) stall() error {
	if p := n.stalled.Load(); p != nil {
		return fmt.Errorf("%w: this node makes %w", txn.ErrUnavailable, *p)
	}
	return nil
}
