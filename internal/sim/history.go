package sim

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/txmgr/txmgr/txn"
)

// opKind is the kind of a call in the history.
type opKind uint8

const (
	opOther opKind = iota // not a part of the history
	opBegin
	opCommit
	opRollback
	opVote
	opDelegate
	opExtend
	opDone
	opGet
	opCollect // the first part of a commit, which collects votes: other callers observe it
)

// decides reports whether the call may decide a transaction.
func (k opKind) decides() bool {
	return k == opCommit || k == opRollback || k == opVote || k == opDelegate
}

// event is one call about one transaction.
type event struct {
	client   int
	op       opKind
	id       txn.ID
	host     int
	from, to time.Duration
	answered bool // an answer was received
	err      error
	state    txn.State // the state in the answer; zero: none
	timeout  time.Duration
	forgets  bool // outcomes are forgotten in this run
	named    bool // the application named the transaction without a call, or its last branch decides
}

// history is all calls and answers.
type history struct {
	w       *World
	cluster atomic.Value // the cluster's id, once a branch was named in an answer

	mu     sync.Mutex
	events []*event // guarded by mu
}

func (h *history) begin(client int, op opKind, id txn.ID, host int, timeout time.Duration) *event {
	e := &event{client: client, op: op, id: id, host: host, from: h.w.now(), timeout: timeout, forgets: h.w.forgets()}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
	return e
}

// end records the result of a call.
func (h *history) end(e *event, v any, err error, begun time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.from, e.to, e.err = begun, h.w.now(), err
	e.answered = !errors.Is(err, errDied)
	var x *txn.Error
	if errors.As(err, &x) {
		e.state = x.State
	}
	switch v := v.(type) {
	case txn.Outcome:
		if err == nil {
			e.state = v.State
		}
	case txn.Info:
		e.state = v.State
	}
}

// The states of a transaction that a client can tell apart.
const (
	seenNothing = iota
	seenActive
	seenPreparing
	seenCommit
	seenRollback
)

func seen(s txn.State) int {
	switch {
	case s.Commits():
		return seenCommit
	case s.Decided():
		return seenRollback
	case s == txn.Preparing:
		return seenPreparing
	case s == txn.Active:
		return seenActive
	}
	return seenNothing
}

// hidden are the states that a transaction can have reached since then without a call of the
// history: by its timeout, by votes of others, or by the decision of a branch, which one that is appointed makes at any time.
func (e *event) hidden(s int) []int {
	switch {
	case s == seenActive && e.named:
		return []int{seenActive, seenPreparing, seenCommit, seenRollback}
	case s == seenActive:
		return []int{seenActive, seenRollback}
	case s == seenPreparing:
		return []int{seenPreparing, seenCommit, seenRollback}
	}
	return []int{s}
}

// model defines the permitted answers to the calls about one transaction.
func model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{seenNothing} },
		Step: func(state, input, output any) (next []any) {
			e := input.(*event)
			for _, s := range e.hidden(state.(int)) {
				for _, n := range e.after(s) {
					next = append(next, n)
				}
			}
			return next
		},
		DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", *input.(*event)) },
	}
	return m.ToModel()
}

// unknown reports whether the effect of the call is unknown: also of a report that is allowed to wait, as is that of a branch that
// decides.
func (e *event) unknown() bool {
	return !e.answered || errors.Is(e.err, txn.ErrInDoubt) || e.op == opDone && e.named
}

// after returns the states in which the call can leave a transaction that is in state s, given its
// answer; none if the answer is wrong.
func (e *event) after(s int) []int {
	if e.unknown() {
		next := []int{s}
		for _, n := range e.effect(s) {
			if n != s {
				next = append(next, n)
			}
		}
		return next
	}
	var next []int
	for _, n := range e.effect(s) {
		if e.fits(s, n) {
			next = append(next, n)
		}
	}
	return next
}

// effect returns the states to which a call that is carried out can lead from s.
func (e *event) effect(s int) []int {
	switch {
	case e.op == opBegin && s == seenNothing:
		return []int{seenActive, seenNothing} // its session may have ended
	case e.op == opCollect && s == seenActive:
		return []int{seenActive, seenPreparing}
	case e.op == opCommit && s == seenActive:
		return []int{seenCommit, seenPreparing, seenRollback, seenActive} // depends on the votes
	case e.op == opCommit && s == seenPreparing:
		return []int{seenPreparing, seenCommit, seenRollback}
	case e.op == opRollback && s == seenActive, e.op == opVote && s == seenActive:
		return []int{seenRollback, s}
	case e.op == opRollback && s == seenPreparing, e.op == opVote && s == seenPreparing:
		return []int{seenRollback, seenPreparing, seenCommit}
	case e.op == opDelegate && s == seenActive:
		return []int{seenPreparing, s}
	case e.op == opDone && s == seenPreparing:
		return []int{seenPreparing, seenCommit, seenRollback}
	}
	return []int{s}
}

// fits reports whether the answer is right for a call that led from one state to another.
func (e *event) fits(from, to int) bool {
	switch {
	case e.op == opCollect:
		return true
	case e.err == nil && e.op == opBegin:
		return to != seenNothing
	case e.err == nil && e.op == opCommit:
		return to == seenCommit
	case e.err == nil && e.op == opRollback:
		return to == seenRollback
	case e.err == nil && e.op == opDone:
		return to != seenNothing && to != seenActive
	case e.err == nil:
		return seen(e.state) == to
	case errors.Is(e.err, txn.ErrRolledBack), errors.Is(e.err, txn.ErrEndedByApplication):
		return to == seenRollback
	case e.forgets && from == to && (to == seenCommit || to == seenRollback) && (errors.Is(e.err, txn.ErrNotFound) || errors.Is(e.err, txn.ErrForgotten)):
		return true
	case errors.Is(e.err, txn.ErrNotFound), errors.Is(e.err, txn.ErrForgotten):
		return from == seenNothing && to == seenNothing
	case e.state.Decided():
		return seen(e.state) == to
	}
	return from == to && to != seenNothing
}

// dropped reports whether a call is irrelevant: it surely had no effect, and its answer contains no
// state.
func (e *event) dropped() bool {
	switch {
	case e.op == opOther || e.op == opExtend:
		return true
	case e.op == opGet && (e.unknown() || errors.Is(e.err, txn.ErrWaitTimeout)):
		return true
	}
	return e.refused()
}

// refused reports whether the call surely had no effect.
func (e *event) refused() bool {
	return e.answered && errors.Is(e.err, txn.ErrUnavailable) && !errors.Is(e.err, txn.ErrInDoubt)
}

// check looks for transactions whose answers are not linearizable.
func (h *history) check() (operations int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	byID := map[txn.ID][]porcupine.Operation{}
	var order []txn.ID
	for _, e := range h.events {
		if e.dropped() {
			continue
		}
		if r := h.w.apps[e.id]; r != nil {
			e.named = r.named || r.last
		}
		if byID[e.id] == nil {
			order = append(order, e.id)
		}
		to := int64(e.to)
		if e.unknown() {
			to = math.MaxInt64
		}
		byID[e.id] = append(byID[e.id], porcupine.Operation{ClientId: e.client, Input: e, Call: int64(e.from), Return: to})
		if e.op == opCommit {
			part := *e
			part.op = opCollect
			byID[e.id] = append(byID[e.id], porcupine.Operation{ClientId: e.client, Input: &part, Call: int64(e.from), Return: to})
		}
		operations++
	}
	m := model()
	for _, id := range order {
		if !porcupine.CheckOperations(m, byID[id]) {
			text := ""
			for _, o := range byID[id] {
				e := o.Input.(*event)
				text += fmt.Sprintf("\n    %v..%v client %d at n%d: op %d: state %v, error %v", e.from, e.to, e.client, e.host+1, e.op, e.state, e.err)
			}
			h.w.violate("%v: its calls are not linearizable:%s", id, text)
		}
	}
	return operations
}
