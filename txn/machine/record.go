package machine

import (
	"encoding/binary"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine/internal/slab"
)

// record is a transaction in its slab. It has no pointers.
type record struct {
	id          txn.ID
	seq         uint64
	expiry      survival.Tick
	survival    uint64
	timeout     time.Duration
	began       int64
	fingerprint uint64
	ended       survival.Tick
	decidedAt   int64 // wall clock, tick and entry of the decision
	decidedTick survival.Tick
	entry       uint64       // while it is in the list of a session: the slot of that session
	deadline    survival.Ref // place in the survival index while that decides
	name        slab.StringRef
	labels      slab.StringRef // after the id of its session, when it has one
	reason      slab.StringRef
	first       uint32 // branches, in the order of their ids
	last        uint32
	next        uint32 // in the list of a session: the one that joined after this one
	prev        uint32 // and the one before
	count       uint16 // branches
	unfinished  uint16 // branches that are not finished
	state       txn.State
	cause       txn.Cause
	heuristic   txn.Heuristic
	flags       flags
}

// flags are the boolean facts about a record.
type flags uint8

const (
	clientCompletes    flags = 1 << iota // the application completes its branches itself
	delegated                            // undecided, and only its branch's end decides: appointed while it is active
	reenlisted                           // a branch was enlisted again from another connection
	inSession                            // begun in a client session
	inSessionList                        // undecided, and in the list of its session
	endedByApplication                   // a branch was ended by statements of the application's own
	beforeRestore                        // see [Transaction.BeforeRestore]
)

func (r *record) is(f flags) bool { return r.flags&f != 0 }

// branch is a branch in its slab.
type branch struct {
	next        uint32
	participant uint32
	payload     slab.StringRef
	sessionRef  slab.StringRef
	replaced    slab.StringRef // session references that were replaced
	detail      slab.StringRef
	vote        txn.Vote
	state       txn.BranchState
	heuristic   txn.Heuristic
}

// hasDeadline reports whether its deadline will end it if nothing else does before: by a rollback, or, when its branch is
// appointed, by having the branch's end found out.
func (r *record) hasDeadline() bool {
	return r.state == txn.Active || r.state == txn.Preparing && !r.is(delegated)
}

// survivalIndex is its survival index at a tick: the invocations since it was computed are
// subtracted.
func (r *record) survivalIndex(now survival.Tick) survival.Index {
	computed := r.expiry - survival.Tick(r.survival)
	return survival.Index{Survival: int64(r.survival)}.Aged(int64(now - computed))
}

// stateView is what a reader of the machine or of a snapshot needs.
type stateView struct {
	txs          slab.Pages[record]
	branches     slab.Pages[branch]
	cells        slab.StringPages
	participants []Registration
}

// expand fills t with the transaction in slot i. Slices of t are used again.
func (v *stateView) expand(i uint32, t *Transaction) {
	r := v.txs.At(i)
	labels, branches := t.Labels[:0], t.Branches[:0]
	// One by one: within one expression the conversion to a string may come after the call that
	// uses scratch again.
	scratch := v.cells.Append(nil, r.name)
	name := string(scratch)
	scratch = v.cells.Append(scratch[:0], r.reason)
	reason := string(scratch)
	*t = Transaction{
		ID: r.id, Name: name, State: r.state, Cause: r.cause, Heuristic: r.heuristic, Reason: reason, Timeout: r.timeout,
		Survival: r.survival, Expiry: r.expiry, Began: r.began, Fingerprint: r.fingerprint, Seq: r.seq,
		Ended: r.ended, Decided: r.decidedAt, DecidedTick: r.decidedTick,
		ClientCompletes: r.is(clientCompletes), Reenlisted: r.is(reenlisted), BeforeRestore: r.is(beforeRestore),
	}
	if !r.is(inSessionList) {
		t.DecidedIndex = r.entry
	}
	scratch = v.cells.Append(scratch[:0], r.labels)
	if r.is(inSession) {
		scratch = scratch[copy(t.Session[:], scratch):]
	}
	t.Labels = decodeLabels(labels, scratch)
	for k := r.first; k != 0; {
		b := v.branches.At(k)
		branches = append(branches, v.expandBranch(b))
		k = b.next
	}
	t.Branches = branches
}

func (v *stateView) expandBranch(b *branch) TransactionBranch {
	return TransactionBranch{
		Participant: v.participants[b.participant].Name,
		Payload:     v.cells.Append(nil, b.payload),
		SessionRef:  string(v.cells.Append(nil, b.sessionRef)),
		Replaced:    splitStrings(v.cells.Append(nil, b.replaced)),
		Vote:        b.vote, State: b.state, Heuristic: b.heuristic,
		Detail: string(v.cells.Append(nil, b.detail)),
	}
}

// encodeLabels and decodeLabels encode labels as one string.
func encodeLabels(dst []byte, labels []Label) []byte {
	for _, l := range labels {
		dst = appendString(appendString(dst, l.Key), l.Value)
	}
	return dst
}

func decodeLabels(dst []Label, b []byte) []Label {
	for len(b) > 0 {
		var l Label
		l.Key, b = cutString(b)
		l.Value, b = cutString(b)
		dst = append(dst, l)
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func cutString(b []byte) (string, []byte) {
	n, k := binary.Uvarint(b)
	b = b[k:]
	return string(b[:n]), b[n:]
}
