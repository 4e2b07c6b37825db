package txn

import (
	"cmp"
	"context"
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
// ([Namer]), while the application works: the first enlistment when its resource has been opened, the
// others at once, in the order of their names. It keeps two rules, on which recovery, the sweep and presumed abort rest:
//
//   - No branch prepares, and no decision is delegated, before [announcer.await] or [announcer.awaitLast] has
//     returned without an error. So whatever is found prepared at a participant, the coordinator has begun.
//   - Only a branch that is appointed, and is not revoked, commits without that: see [announcer.decide].
//     What proves how it ends was written when its resource was opened, so before its appointment was
//     sent. A revocation is sent before, or with, all that follows it, and is awaited as that is.
//
// One goroutine at a time sends, and ends when there is nothing left to send. A nil announcer is
// that of a transaction which was begun by a call: everything is known, and is sent by calls.
type announcer struct {
	m   Manager
	n   Naming
	ctx context.Context // of the calls: that of Start without its end
	end context.CancelFunc

	mu       sync.Mutex        // guards all below
	branches []announcedBranch // by their names
	begun    bool
	shared   bool // others may enlist, too: branches are not named here any more
	over     bool // the transaction was ended without a branch: it is not begun any more
	appointment
	err     error         // why the transaction cannot commit: the first refusal
	sending chan struct{} // closed when all was sent, or sending was given up; nil when nothing is being sent
	hurry   func()        // sends at once, without waiting for a second branch; not nil while sending is not
	awaited bool          // someone waits: a begin without branches, and a revocation, are sent, too
}

func newAnnouncer(ctx context.Context, m Manager, n Naming) *announcer {
	a := &announcer{m: m, n: n}
	ctx, a.end = context.WithCancel(context.WithoutCancel(ctx))
	a.ctx = ctx
	return a
}

// await returns when the coordinator has begun the transaction and has all its branches, none of
// which decides; an error means that it has not, and that the transaction must be rolled back. A
// transaction without branches is not begun here.
func (a *announcer) await(ctx context.Context) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := context.Cause(ctx); a.decider != 0 && err != nil {
		return err // too late for another way to commit
	}
	a.revokeLocked()
	if len(a.branches) == 0 {
		return a.awaitSentLocked(ctx)
	}
	a.learnLocked()
	return cmp.Or(a.sendAllLocked(ctx), a.unsentLocked())
}

// learnLocked remembers for the next transaction of this name whether there were several branches.
func (a *announcer) learnLocked() {
	hint := a.n.Hints.of(a.n.Options.Name)
	if several := len(a.branches) > 1; hint.Load() != several {
		hint.Store(several)
	}
}

// begin returns when the coordinator has begun the transaction, also one without branches.
// share says that others get its id, and may enlist: from then on branches are not named here, and
// none decides.
func (a *announcer) begin(ctx context.Context, share bool) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if share {
		a.shared = true
		a.noDeciderLocked()
	}
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
	if a.over = len(a.branches) == 0; a.over {
		_ = a.awaitSentLocked(ctx) // the id may have been asked for at this moment
	} else {
		if a.told == 0 {
			a.noDeciderLocked()
		}
		_ = a.sendAllLocked(ctx)
	}
	a.end() // after an error it may have been begun: its deadline ends it
	return a.begun || a.shared && !isRefused(a.err)
}

// sendAllLocked sends what there is, and a begin at least, and waits for that. It releases mu
// meanwhile.
func (a *announcer) sendAllLocked(ctx context.Context) error {
	a.awaited = true
	a.sendLocked(false)
	a.awaited = a.sending != nil
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

// sendLocked starts the goroutine that sends, unless there is one, or nothing to send: now, or when a
// second branch was waited for.
func (a *announcer) sendLocked(awaitSecond bool) {
	if a.sending != nil || a.over || a.err != nil || !a.hasNextLocked() {
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
	for a.err == nil && !a.over && a.hasNextLocked() {
		batch := a.takeLocked()
		begin := !a.begun
		a.beginLeft = true
		a.mu.Unlock()
		got, err := a.call(begin, batch)
		a.mu.Lock()
		a.begun = a.begun || err == nil
		a.checkLocked(len(batch), got, err)
	}
	a.reportLocked()
	close(a.sending)
	a.sending, a.awaited = nil, false
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
