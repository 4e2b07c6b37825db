package recovery

import (
	"cmp"

	"github.com/txmgr/txmgr/recovery/queue"
	"github.com/txmgr/txmgr/txn"
)

// shrinkThreshold is the size of the map of transactions from which on its memory, which
// never shrinks by itself, is given back when the last transaction is finished.
const shrinkThreshold = 4096

// pendingTxs are the transactions that have work, or may have. Guarded by Recovery.mu.
type pendingTxs struct {
	inbox        queue.FIFO[txn.ID]    // to be planned
	deferred     queue.Grace           // left to their clients
	transactions map[txn.ID]txProgress // planned, or in the inbox
	peak         int                   // the most transactions since the map was made
}

// txProgress is the state of a transaction while it is driven.
type txProgress struct {
	outstanding    uint16    // branches that are queued, called, backing off or being reported
	state          txn.State // for which it was planned; zero: not planned
	graceExpired   txn.State // the state for which the grace has expired or was waived
	replans        uint8     // how often it was planned again without a change of state
	queued         bool      // in the inbox
	deadlineTimer  bool      // a timer will put it into the inbox
	awaitingClient bool      // planned without the branches left to the client; deferred has it
}

// enqueueLocked puts a transaction into the inbox, and ends the grace of its branches for the
// state graceExpired. It reports false when the transaction is there already. mu is held.
func (p *pendingTxs) enqueueLocked(id txn.ID, graceExpired txn.State) (added bool) {
	t := p.transactions[id]
	t.graceExpired = cmp.Or(graceExpired, t.graceExpired)
	if !t.queued {
		t.queued, added = true, true
		p.inbox.Push(id)
	}
	p.transactions[id] = t
	return added
}

// takeLocked takes a transaction out of the inbox; mu is held. An Add from now on
// puts it there again, since its work may change after it is read.
func (p *pendingTxs) takeLocked() txn.ID {
	id := p.inbox.Pop()
	t := p.transactions[id]
	t.queued = false
	p.transactions[id] = t
	return id
}

// setLocked keeps the state of a transaction, or drops a transaction without work; mu is held.
func (p *pendingTxs) setLocked(id txn.ID, t txProgress) {
	if t.outstanding > 0 || t.queued || t.deadlineTimer {
		p.transactions[id] = t
		return
	}
	p.peak = max(p.peak, len(p.transactions))
	delete(p.transactions, id)
	if len(p.transactions) == 0 && p.peak > shrinkThreshold {
		p.transactions, p.peak = make(map[txn.ID]txProgress), 0
	}
}

// enqueueLocked puts a transaction into the inbox unless it is there, and ends the
// grace of its branches for the state graceExpired. mu is held.
func (r *Recovery) enqueueLocked(id txn.ID, graceExpired txn.State) {
	if r.pending.enqueueLocked(id, graceExpired) {
		r.wakeups.wake()
	}
}
