package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

const (
	// doubtAfter is how long a decided transaction may take before a person may
	// want to look at it, when nothing has failed.
	doubtAfter = 5 * time.Second
	// maxDoubts bounds the list of doubts: the oldest ones.
	maxDoubts = 1000
)

// Doubts lists the transactions that a person may have to look at, at most 1,000, the
// oldest first: those with a hazard that nobody has forgotten; those that are
// decided, or whose decision is delegated and whose time is over, and that have not
// come to their end within 5 seconds, or of which an attempt has failed.
func (n *Node) Doubts(ctx context.Context) ([]txn.Doubt, error) {
	if err := n.readable(ctx); err != nil {
		return nil, txn.Wrap("doubt list", txn.ID{}, err)
	}
	found := n.doubtful()
	out := make([]txn.Doubt, len(found))
	for i := range found {
		t := &found[i]
		info := n.info(t, true)
		out[i] = txn.Doubt{Info: info, Since: since(t), Why: why(t, &info)}
	}
	return out, nil
}

// doubtful finds the transactions of [Node.Doubts].
func (n *Node) doubtful() (found []machine.Transaction) {
	s := n.suspicion()
	for from := uint32(0); ; {
		var part []machine.Transaction
		n.fsm.View(func(m *machine.Machine) { part, from = m.Scan(from, scanStep, machine.Range{}, s.maybe) })
		for i := range part {
			if s.confirmed(&part[i]) {
				found = append(found, part[i])
			}
		}
		if len(found) > 2*maxDoubts || from == 0 {
			slices.SortFunc(found, func(a, b machine.Transaction) int { return since(&a).Compare(since(&b)) })
			found = found[:min(len(found), maxDoubts)]
		}
		if from == 0 {
			return found
		}
	}
}

// suspicion is what makes a transaction doubtful now.
type suspicion struct {
	node    *Node
	tick    survival.Tick
	patient survival.Tick   // doubtAfter in ticks
	failing map[string]bool // participants at which something has failed
}

func (n *Node) suspicion() *suspicion {
	s := &suspicion{node: n, failing: make(map[string]bool)}
	s.tick, _ = n.clock.now()
	interval := max(n.interval(), 1) // a node of no cluster has none
	s.patient = survival.Tick((doubtAfter + interval - 1) / interval)
	if r := n.recovery.Load(); r != nil {
		for _, name := range (log{n}).Participants() {
			if h := r.Health(name); !h.Healthy || h.Waiting > 0 || h.LastError != "" {
				s.failing[name] = true
			}
		}
	}
	return s
}

// maybe is a quick look, which lets through all that are doubtful, and few others.
func (s *suspicion) maybe(b machine.Brief) bool {
	switch {
	case b.Hazard != 0:
		return true
	case b.State.Decided():
		// Before decisions were given a time, they were made long ago.
		return !b.State.Finished() && (len(s.failing) > 0 || b.DecidedTick+s.patient <= s.tick)
	}
	return b.State == txn.Preparing && b.Expiry <= s.tick // delegated, or the log stands still
}

// confirmed looks closer.
func (s *suspicion) confirmed(t *machine.Transaction) bool {
	if t.Hazard != 0 {
		return true
	}
	if t.State.Finished() {
		return false
	}
	if s.overdue(t) {
		return true
	}
	atFailing := func(b machine.TransactionBranch) bool { return s.failing[b.Participant] && !b.State.Finished() }
	r := s.node.recovery.Load()
	return r != nil && slices.ContainsFunc(t.Branches, atFailing) &&
		slices.ContainsFunc(r.Attempts(t.ID), func(a recovery.Attempt) bool { return a.Count > 0 })
}

// overdue reports whether the branches have had time enough to come to their end, by
// the coordinator's own clock: the time that it was down is not theirs.
func (s *suspicion) overdue(t *machine.Transaction) bool {
	from := t.DecidedTick
	if !t.State.Decided() || t.Decided == 0 && t.Cause == txn.CauseTimeout {
		from = t.Expiry
	}
	return from+s.patient <= s.tick
}

// since is when a transaction was decided, or, when it is not, when its time was
// over, by the wall clock.
func since(t *machine.Transaction) time.Time {
	switch {
	case t.Decided != 0:
		return time.UnixMilli(t.Decided).UTC()
	case t.State.Decided() && t.Cause != txn.CauseTimeout: // before decisions were given a time
		return time.UnixMilli(t.Began).UTC()
	}
	return time.UnixMilli(t.Began).Add(t.Timeout).UTC()
}

// why says in a line what went wrong, or what the transaction is waiting for.
func why(t *machine.Transaction, i *txn.Info) string {
	var parts []string
	for k := range t.Branches {
		if b := &t.Branches[k]; b.State == txn.BranchHazard {
			parts = append(parts, hazardText(t, txn.BranchID(k+1)))
		}
	}
	for k := range i.Branches {
		if b := &i.Branches[k]; !b.State.Finished() {
			parts = append(parts, waitText(t, b))
		}
	}
	const shown = 3
	if more := len(parts) - shown; more > 0 {
		parts = append(parts[:shown], fmt.Sprintf("and %d more branches", more))
	}
	return strings.Join(parts, "; ")
}

// hazardText says of a branch how it ended, or may have ended, otherwise than decided.
func hazardText(t *machine.Transaction, id txn.BranchID) string {
	b := &t.Branches[id-1]
	decision := "roll back"
	if t.State.Commits() {
		decision = "commit"
	}
	text := fmt.Sprintf("%v at %s ended %v although the decision was to %s", id, b.Participant, b.Hazard, decision)
	if b.Hazard == txn.HazardUnknown {
		text = fmt.Sprintf("nobody knows how %v at %s ended; the decision was to %s", id, b.Participant, decision)
	}
	if b.Detail != "" {
		text += " (" + oneLine(b.Detail) + ")"
	}
	return text
}

// waitText says of an unfinished branch what it is waiting for.
func waitText(t *machine.Transaction, b *txn.BranchInfo) string {
	if b.Attempts == 0 && b.LastError == "" {
		switch {
		case t.Delegated() && b.Vote == txn.VoteEndedByHand:
			return fmt.Sprintf("%s at %s was ended by statements of the application's own, and its participant has not said how", b.Name, b.Participant)
		case t.Delegated():
			return fmt.Sprintf("the decision was delegated to %s at %s, and nobody has said how it ended", b.Name, b.Participant)
		default:
			return fmt.Sprintf("%s at %s has not come to its end yet", b.Name, b.Participant)
		}
	}
	text := b.Participant + ": " + oneLine(b.LastError) + " (attempt " + fmt.Sprint(b.Attempts)
	if next := time.Duration(b.NextTry).Round(time.Second); next > 0 {
		text += fmt.Sprintf(", next in %v", next)
	}
	return text + ")"
}

// oneLine keeps a text of a participant from breaking a line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Retry drives a transaction now, whatever its backoff; the zero id means all that
// are in doubt. A branch whose end is unknown is asked for once more.
//
// [txn.ErrConflict]: it is not decided yet, or nothing is left that could be driven.
func (n *Node) Retry(ctx context.Context, id txn.ID) error {
	r := n.recovery.Load()
	if r == nil {
		return &txn.Error{Op: "doubt retry", ID: id, Err: txn.ErrUnavailable, Detail: "this node does not lead"}
	}
	if n.onHold() {
		return &txn.Error{Op: "doubt retry", ID: id, Err: txn.ErrUnavailable, Detail: machine.RestoredDetail}
	}
	if id.IsZero() {
		for _, t := range n.doubtful() {
			r.Retry(t.ID)
		}
		return nil
	}
	t, err := n.transaction(ctx, "doubt retry", id)
	if err != nil {
		return err
	}
	switch {
	case t.State.Finished() && t.Hazard != 0:
		return n.reexamine(ctx, &t)
	case t.State == txn.Active, t.Delegated() && n.clock.until(t.Expiry) > 0:
		return &txn.Error{Op: "doubt retry", ID: id, State: t.State, Err: txn.ErrConflict, Detail: fmt.Sprintf("nothing is to be driven before it is decided, or its time is over in %v", n.clock.until(t.Expiry).Round(time.Millisecond))}
	}
	r.Retry(id)
	return nil
}

// reexamine asks for the proof that was missing when a branch ended unknown.
func (n *Node) reexamine(ctx context.Context, t *machine.Transaction) error {
	var reports []recovery.Report
	for _, q := range n.inquire(ctx, t, targets(t, 0)) {
		id, _ := txn.ParseBranchID(q.Branch)
		if end, ok := provedEnd(&q); ok {
			reports = append(reports, reportOf(t, id, end, q.Detail))
		}
	}
	if len(reports) == 0 {
		return &txn.Error{Op: "doubt retry", ID: t.ID, State: t.State, Err: txn.ErrConflict, Detail: "all branches have ended, and no participant knows more than before: say how they ended with doubt resolve, or doubt forget it"}
	}
	if err := (log{n}).Report(ctx, t.ID, reports); err != nil {
		return txn.Wrap("doubt retry", t.ID, err)
	}
	return nil
}

// reportOf is what recovery would have found out about the end of a branch.
func reportOf(t *machine.Transaction, id txn.BranchID, end txn.BranchState, detail string) recovery.Report {
	r := recovery.Report{Branch: id, Detail: detail}
	switch {
	case t.State.Commits() == (end == txn.BranchCommitted):
		r.State = end
	case end == txn.BranchCommitted:
		r.Hazard = txn.HazardCommitted
	default:
		r.Hazard = txn.HazardRolledBack
	}
	return r
}

// transaction gives a transaction to a call of a person.
func (n *Node) transaction(ctx context.Context, op string, id txn.ID) (t machine.Transaction, err error) {
	if err := n.readable(ctx); err != nil {
		return t, txn.Wrap(op, id, err)
	}
	t, ok := n.stored(id)
	if !ok {
		return t, machine.Result{Code: machine.NotFound}.Refusal(op, id)
	}
	return t, nil
}
