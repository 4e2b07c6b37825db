package machine

import (
	"encoding/binary"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// outcome is a finished transaction without a heuristic outcome, encoded: the fields that are
// read most come first. It lives only in memory, and its form may change with every release, as
// long as nothing that replicas must agree on depends on its length. Its bytes are the arena's,
// and must not be changed.
type outcome []byte

// outcomePrefix is the front part of an outcome, of fixed size but for the rest.
type outcomePrefix struct {
	state       txn.State
	cause       txn.Cause
	flags       flags
	fingerprint uint64
	rest        reader
}

// outcomePrefixSize is how many bytes precede the rest.
const outcomePrefixSize = 3 + 8

func (o outcome) prefix() outcomePrefix {
	return outcomePrefix{
		state: txn.State(o[0]), cause: txn.Cause(o[1]), flags: flags(o[2]),
		fingerprint: binary.LittleEndian.Uint64(o[3:]), rest: reader(o[outcomePrefixSize:]),
	}
}

// ended is the tick at which it finished.
func (o outcome) ended() survival.Tick {
	r := reader(o[outcomePrefixSize:])
	return survival.Tick(r.uvarint())
}

// summary is what is cheap to read of an outcome.
func (o outcome) summary(id txn.ID) Summary {
	c := o.prefix()
	b := Summary{ID: id, State: c.state}
	c.rest.uvarint() // ended
	b.Expiry, b.Began = survival.Tick(c.rest.uvarint()), c.rest.varint()
	c.rest.varint() // decided
	b.DecidedTick = survival.Tick(c.rest.uvarint())
	return b
}

// appendOutcome encodes the finished transaction r.
func (m *Machine) appendOutcome(dst []byte, r *record) []byte {
	dst = append(dst, byte(r.state), byte(r.cause), byte(r.flags))
	dst = binary.LittleEndian.AppendUint64(dst, r.fingerprint)
	dst = binary.AppendUvarint(dst, uint64(r.ended))
	dst = binary.AppendUvarint(dst, uint64(r.expiry))
	dst = binary.AppendVarint(dst, r.began)
	dst = binary.AppendVarint(dst, r.decidedAt-r.began)
	dst = binary.AppendUvarint(dst, uint64(r.decidedTick))
	dst = binary.AppendUvarint(dst, r.entry)
	dst = binary.AppendUvarint(dst, r.seq)
	dst = binary.AppendUvarint(dst, r.survival)
	dst = binary.AppendVarint(dst, int64(r.timeout))
	p := m.strings.Pages()
	dst = p.AppendSized(p.AppendSized(p.AppendSized(dst, r.name), r.labels), r.reason)
	dst = binary.AppendUvarint(dst, uint64(r.count))
	for k := r.first; k != 0; {
		b := m.branches.At(k)
		dst = append(dst, byte(b.vote), byte(b.state), byte(b.heuristic))
		dst = binary.AppendUvarint(dst, uint64(b.participant))
		// Payload and session reference are dropped when a transaction finishes; snapshots of
		// the first releases may have them.
		dst = p.AppendSized(p.AppendSized(p.AppendSized(dst, b.detail), b.payload), b.sessionRef)
		k = b.next
	}
	return dst
}

// expandOutcome fills t with an outcome. Slices of t are used again.
func (v *stateView) expandOutcome(id txn.ID, o outcome, t *Transaction) {
	labels, branches := t.Labels[:0], t.Branches[:0]
	c := o.prefix()
	r := &c.rest
	*t = Transaction{ID: id, State: c.state, Cause: c.cause, Fingerprint: c.fingerprint, ClientCompletes: c.flags&clientCompletes != 0, Reenlisted: c.flags&reenlisted != 0}
	t.Ended, t.Expiry = survival.Tick(r.uvarint()), survival.Tick(r.uvarint())
	t.Began = r.varint()
	t.Decided = t.Began + r.varint()
	t.DecidedTick, t.DecidedIndex = survival.Tick(r.uvarint()), r.uvarint()
	t.Seq, t.Survival, t.Timeout = r.uvarint(), r.uvarint(), time.Duration(r.varint())
	t.Name = string(r.bytes())
	b := r.bytes()
	if c.flags&inSession != 0 {
		b = b[copy(t.Session[:], b):]
	}
	t.Labels, t.Reason = decodeLabels(labels, b), string(r.bytes())
	for range r.uvarint() {
		var b TransactionBranch
		b.Vote, b.State, b.Heuristic = txn.Vote(r.byte()), txn.BranchState(r.byte()), txn.Heuristic(r.byte())
		b.Participant = v.participants[r.uvarint()].Name
		b.Detail = string(r.bytes())
		b.Payload = append([]byte(nil), r.bytes()...)
		b.SessionRef = string(r.bytes())
		branches = append(branches, b)
	}
	t.Branches = branches
}

// reader takes values off the front of an outcome, which is known to be whole.
type reader []byte

func (r *reader) byte() byte {
	b := (*r)[0]
	*r = (*r)[1:]
	return b
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(*r)
	*r = (*r)[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(*r)
	*r = (*r)[n:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	b := (*r)[:n]
	*r = (*r)[n:]
	return b
}
