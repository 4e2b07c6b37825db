package txn

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// secondBranchDelay is how long the begin waits for a second branch where one is expected:
	// see [BranchHints].
	secondBranchDelay = time.Millisecond
	// maxBeginBytes bounds the enlistments that are sent with the begin: a command has a limit.
	maxBeginBytes = 256 << 10
)

// announcer sends the begin and the enlistments of a transaction that was named without a call
// ([Namer]), while the application works. Its one invariant: no branch prepares before
// [announcer.await] has returned nil. So whatever is found prepared at a participant, the
// coordinator has begun: recovery, the sweep and presumed abort rest on that.
//
// One goroutine at a time sends, and ends when there is nothing left to send. A nil announcer is
// that of a transaction which was begun by a call: everything is known, and is sent by calls.
type announcer struct {
	m   Manager
	n   Naming
	ctx context.Context // of the calls: that of Start without its end
	end context.CancelFunc

	mu      sync.Mutex // guards all below
	named   []Branch   // the names that were given out, in order
	unsent  []Enlistment
	begun   bool
	shared  bool          // others may enlist, too: branches are not named here any more
	over    bool          // the transaction was ended without a branch: it is not begun any more
	err     error         // why the transaction cannot commit: the first refusal
	sending chan struct{} // closed when all was sent, or sending was given up; nil when nothing is being sent
	hurry   func()        // sends at once, without waiting for a second branch; not nil while sending is not
}

func newAnnouncer(ctx context.Context, m Manager, n Naming) *announcer {
	a := &announcer{m: m, n: n}
	ctx, a.end = context.WithCancel(context.WithoutCancel(ctx))
	a.ctx = ctx
	return a
}

// enlist names the branch of an enlistment, and sends it. named is false when it has to be
// enlisted by a call instead, after [announcer.begin].
func (a *announcer) enlist(e Enlistment) (b Branch, named bool, err error) {
	if a == nil {
		return b, false, nil
	}
	if err := e.Check(); err != nil {
		return b, true, Wrap("enlist", a.n.Options.ID, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shared || a.err != nil {
		return b, false, a.err
	}
	i := slices.IndexFunc(a.named, func(b Branch) bool { return b.Participant == e.Participant })
	if i < 0 {
		i = len(a.named)
		id := BranchID(i + 1)
		a.named = append(a.named, Branch{ID: id, Participant: e.Participant, XID: XID(a.n.Cluster, a.n.Options.ID, id)})
	}
	// A branch that was not sent yet, and whose resource could not be opened, has a new session.
	a.unsent = slices.DeleteFunc(a.unsent, func(u Enlistment) bool { return u.Participant == e.Participant })
	a.unsent = append(a.unsent, e)
	if len(a.named) > 1 {
		a.hurryLocked()
	}
	a.sendLocked(!a.begun && len(a.named) == 1 && a.n.Hints.of(a.n.Options.Name).Load())
	return a.named[i], true, nil
}

// await returns when the coordinator has begun the transaction and has all its branches; an
// error means that it has not, and that the transaction must be rolled back. A transaction
// without branches is not begun here.
func (a *announcer) await(ctx context.Context) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.named == nil {
		return a.awaitSentLocked(ctx)
	}
	hint := a.n.Hints.of(a.n.Options.Name)
	if several := len(a.named) > 1; hint.Load() != several {
		hint.Store(several)
	}
	return a.sendAllLocked(ctx)
}

// begin returns when the coordinator has begun the transaction, also one without branches.
// share says that others get its id, and may enlist: from then on branches are not named here.
func (a *announcer) begin(ctx context.Context, share bool) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shared = a.shared || share
	return a.sendAllLocked(ctx)
}

// finish ends the announcement of a transaction that is ended without a decision to commit, and
// reports whether the coordinator has to be told: it has begun it, or may have, and others know
// the id. It is sent also then, so that the coordinator has a record of every transaction that
// had a branch, but not when there is none.
func (a *announcer) finish(ctx context.Context) (known bool) {
	if a == nil {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over = a.named == nil; a.over {
		_ = a.awaitSentLocked(ctx) // the id may have been asked for at this moment
	} else {
		_ = a.sendAllLocked(ctx)
	}
	a.end() // after an error it may have been begun: its deadline ends it
	return a.begun || a.shared && !isRefused(a.err)
}

// sendAllLocked sends what there is, and a begin at least, and waits for that. It releases mu
// meanwhile.
func (a *announcer) sendAllLocked(ctx context.Context) error {
	if !a.begun || len(a.unsent) > 0 {
		a.sendLocked(false)
	}
	err := a.awaitSentLocked(ctx)
	if err == nil && a.over && !a.begun {
		err = &Error{Op: "begin", ID: a.n.Options.ID, Err: ErrNotActive, Detail: "it was ended before it was begun"}
	}
	return err
}

// awaitSentLocked waits for the goroutine that sends. It releases mu meanwhile.
func (a *announcer) awaitSentLocked(ctx context.Context) error {
	a.hurryLocked()
	var ended error
	if sending := a.sending; sending != nil {
		a.mu.Unlock()
		select {
		case <-sending:
		case <-ctx.Done():
			ended = context.Cause(ctx)
		}
		a.mu.Lock()
	}
	return cmp.Or(a.err, ended)
}

// hurryLocked ends the wait for a second branch.
func (a *announcer) hurryLocked() {
	if a.sending != nil {
		a.hurry()
	}
}

// sendLocked starts the goroutine that sends, unless there is one: now, or when a second branch
// was waited for.
func (a *announcer) sendLocked(awaitSecond bool) {
	if a.sending != nil || a.over || a.err != nil {
		return
	}
	a.sending = make(chan struct{})
	var due context.Context
	due, a.hurry = context.WithTimeout(context.Background(), secondBranchDelay)
	context.AfterFunc(due, a.send)
	if !awaitSecond {
		a.hurry()
	}
}

// send sends what there is, until nothing is left.
func (a *announcer) send() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hurry() // releases the timer
	for a.err == nil && !a.over && (!a.begun || len(a.unsent) > 0) {
		batch := a.takeLocked()
		begin := !a.begun
		a.mu.Unlock()
		got, err := a.call(begin, batch)
		a.mu.Lock()
		a.begun = a.begun || err == nil
		a.checkLocked(len(batch), got, err)
	}
	close(a.sending)
	a.sending = nil
}

// takeLocked takes the enlistments of the next call: all that fit into a begin, or one.
func (a *announcer) takeLocked() []Enlistment {
	n, size := 0, 0
	for n < len(a.unsent) && n < MaxBranches && (n == 0 || !a.begun && size < maxBeginBytes) {
		size += len(a.unsent[n].Payload) + MaxSessionRef
		n++
	}
	batch := a.unsent[:n:n]
	a.unsent = a.unsent[n:]
	return batch
}

func (a *announcer) call(begin bool, batch []Enlistment) ([]Branch, error) {
	if begin {
		o := a.n.Options
		o.Branches = batch
		res, err := a.m.Begin(a.ctx, o)
		return res.Branches, err
	}
	b, err := a.m.Enlist(a.ctx, a.n.Options.ID, batch[0])
	return []Branch{b}, err
}

// checkLocked compares the coordinator's answer with the names that were given out. Another
// name is a conflict: the branch works under one that the coordinator does not know.
func (a *announcer) checkLocked(sent int, got []Branch, err error) {
	if err == nil && len(got) != sent {
		err = &Error{Op: "enlist", ID: a.n.Options.ID, Err: ErrConflict, Detail: fmt.Sprintf("the coordinator has answered with %d branches, and was sent %d", len(got), sent)}
	}
	for _, b := range got {
		if err == nil && !slices.Contains(a.named, b) {
			err = &Error{Op: "enlist", ID: a.n.Options.ID, Err: ErrConflict, Detail: fmt.Sprintf("the coordinator names the branch at %s %s, which is not the name that it works under: another application has enlisted by the id, or the address leads to another cluster now", b.Participant, b.XID)}
		}
	}
	a.err = err
}
