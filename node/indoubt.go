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
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

const (
	// inDoubtAfter is how long a decided transaction may take before it is listed as in doubt,
	// if nothing has failed.
	inDoubtAfter = 5 * time.Second
)

// InDoubts lists the transactions that an operator may have to look at, at most 1,000, oldest
// first: those with a heuristic outcome that is not forgotten; and those that are decided, or
// that are delegated and past their deadline, and that have not completed within 5 seconds or
// had a failed attempt.
func (n *Node) InDoubts(ctx context.Context) ([]admin.InDoubt, error) {
	if err := n.requireReadable(ctx); err != nil {
		return nil, txn.Wrap("indoubt list", txn.ID{}, err)
	}
	found := n.findInDoubt()
	out := make([]admin.InDoubt, len(found))
	for i := range found {
		t := &found[i]
		info := n.info(t, true)
		out[i] = admin.InDoubt{Info: info, Since: inDoubtSince(t), Why: inDoubtReason(t, &info)}
	}
	return out, nil
}

// findInDoubt finds the transactions of [Node.InDoubts].
func (n *Node) findInDoubt() (found []machine.Transaction) {
	s := n.newInDoubtFilter()
	for from := uint32(0); ; {
		var part []machine.Transaction
		n.fsm.View(func(m *machine.Machine) { part, from = m.Scan(from, scanStep, machine.IDRange{}, s.candidate) })
		for i := range part {
			if s.matches(&part[i]) {
				found = append(found, part[i])
			}
		}
		if len(found) > 2*admin.MaxInDoubt || from == 0 {
			slices.SortFunc(found, func(a, b machine.Transaction) int { return inDoubtSince(&a).Compare(inDoubtSince(&b)) })
			found = found[:min(len(found), admin.MaxInDoubt)]
		}
		if from == 0 {
			return found
		}
	}
}

// inDoubtFilter selects the transactions that are in doubt at one moment.
type inDoubtFilter struct {
	node    *Node
	tick    survival.Tick
	slack   survival.Tick   // inDoubtAfter in ticks
	failing map[string]bool // participants that are unhealthy or have failed or waiting calls
}

func (n *Node) newInDoubtFilter() *inDoubtFilter {
	s := &inDoubtFilter{node: n, failing: make(map[string]bool)}
	s.tick, _ = n.clock.Now()
	interval := max(n.interval(), 1) // zero while the node belongs to no cluster
	s.slack = survival.Tick((inDoubtAfter + interval - 1) / interval)
	if r := n.recovery.Load(); r != nil {
		for _, name := range (recoveryLog{n}).Participants() {
			if h := r.Health(name); !h.Healthy || h.Waiting > 0 || h.LastError != "" {
				s.failing[name] = true
			}
		}
	}
	return s
}

// candidate is the cheap first check. It selects all transactions in doubt, and few others.
func (s *inDoubtFilter) candidate(b machine.Summary) bool {
	switch {
	case b.Heuristic != 0:
		return true
	case b.State.Decided():
		// A decision of an earlier release has no tick, and so counts as made long ago.
		return !b.State.Finished() && (len(s.failing) > 0 || b.DecidedTick+s.slack <= s.tick)
	}
	return b.State == txn.Preparing && b.Expiry <= s.tick // delegated, or the log makes no progress
}

// matches is the exact check of a candidate.
func (s *inDoubtFilter) matches(t *machine.Transaction) bool {
	if t.Heuristic != 0 {
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
		slices.ContainsFunc(r.RetryStates(t.ID), func(a recovery.RetryState) bool { return a.Count > 0 })
}

// overdue reports whether the branches have had enough time to complete, by the coordinator's
// own clock: the time for which the coordinator was down does not count.
func (s *inDoubtFilter) overdue(t *machine.Transaction) bool {
	from := t.DecidedTick
	if !t.State.Decided() || t.Decided == 0 && t.Cause == txn.CauseTimeout {
		from = t.Expiry
	}
	return from+s.slack <= s.tick
}

// inDoubtSince is when a transaction was decided or, if it is not decided, when its deadline
// passed, by the wall clock.
func inDoubtSince(t *machine.Transaction) time.Time {
	switch {
	case t.Decided != 0:
		return time.UnixMilli(t.Decided).UTC()
	case t.State.Decided() && t.Cause != txn.CauseTimeout: // decided by a release that recorded no time
		return time.UnixMilli(t.Began).UTC()
	}
	return time.UnixMilli(t.Began).Add(t.Timeout).UTC()
}

// inDoubtReason states in one line what failed, or what the transaction waits for.
func inDoubtReason(t *machine.Transaction, i *txn.Info) string {
	var parts []string
	for k := range t.Branches {
		if b := &t.Branches[k]; b.State == txn.BranchHeuristic {
			parts = append(parts, heuristicText(t, txn.BranchID(k+1)))
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

// heuristicText states how a branch ended, or may have ended, otherwise than decided.
func heuristicText(t *machine.Transaction, id txn.BranchID) string {
	b := &t.Branches[id-1]
	decision := "roll back"
	if t.State.Commits() {
		decision = "commit"
	}
	text := fmt.Sprintf("%v at %s ended %v although the decision was to %s", id, b.Participant, b.Heuristic, decision)
	if b.Heuristic == txn.HeuristicHazard {
		text = fmt.Sprintf("the end of %v at %s is unknown; the decision was to %s", id, b.Participant, decision)
	}
	if b.Detail != "" {
		text += " (" + oneLine(b.Detail) + ")"
	}
	return text
}

// waitText states what an unfinished branch waits for.
func waitText(t *machine.Transaction, b *txn.BranchInfo) string {
	if b.Attempts == 0 && b.LastError == "" {
		switch {
		case t.Delegated() && b.Vote == txn.VoteEndedByApplication:
			return fmt.Sprintf("%s at %s was ended by statements of the application's own, and its participant has not said how", b.Name, b.Participant)
		case t.Delegated():
			return fmt.Sprintf("the decision was delegated to %s at %s, and its end was not reported", b.Name, b.Participant)
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

// oneLine replaces the line breaks in a participant's text.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Retry retries the branches of a transaction now, regardless of their backoff; the zero id means
// all transactions in doubt. If the end of a branch is unknown, its participant is asked once
// more.
//
// [txn.ErrConflict]: the transaction is not decided yet, or no branch is left to retry.
func (n *Node) Retry(ctx context.Context, id txn.ID) error {
	r := n.recovery.Load()
	if r == nil {
		return &txn.Error{Op: "indoubt retry", ID: id, Err: txn.ErrUnavailable, Detail: "this node does not lead"}
	}
	if n.recoveryPaused() {
		return &txn.Error{Op: "indoubt retry", ID: id, Err: txn.ErrUnavailable, Detail: machine.RecoveryPausedDetail}
	}
	if id.IsZero() {
		for _, t := range n.findInDoubt() {
			r.Retry(t.ID)
		}
		return nil
	}
	t, err := n.transaction(ctx, "indoubt retry", id)
	if err != nil {
		return err
	}
	switch {
	case t.State.Finished() && t.Heuristic != 0:
		return n.probeUnknown(ctx, &t)
	case t.State == txn.Active, t.Delegated() && n.clock.Remaining(t.Expiry) > 0:
		return &txn.Error{Op: "indoubt retry", ID: id, State: t.State, Err: txn.ErrConflict, Detail: fmt.Sprintf("nothing is to be driven before it is decided, or its deadline has passed in %v", n.clock.Remaining(t.Expiry).Round(time.Millisecond))}
	}
	r.Retry(id)
	return nil
}

// probeUnknown asks participants again for the proof that was missing when branches ended with a
// heuristic outcome.
func (n *Node) probeUnknown(ctx context.Context, t *machine.Transaction) error {
	var reports []recovery.BranchResult
	for _, q := range n.probeBranches(ctx, t, unresolvedBranches(t, 0)) {
		id, _ := txn.ParseBranchID(q.Branch)
		if end, ok := provenOutcome(&q); ok {
			reports = append(reports, reportOf(t, id, end, q.Detail))
		}
	}
	if len(reports) == 0 {
		return &txn.Error{Op: "indoubt retry", ID: t.ID, State: t.State, Err: txn.ErrConflict, Detail: "all branches have ended, and no participant knows more than before: say how they ended with indoubt resolve, or indoubt forget it"}
	}
	if err := (recoveryLog{n}).Report(ctx, t.ID, reports); err != nil {
		return txn.Wrap("indoubt retry", t.ID, err)
	}
	return nil
}

// reportOf is the result that recovery would have reported for the end of a branch.
func reportOf(t *machine.Transaction, id txn.BranchID, end txn.BranchState, detail string) recovery.BranchResult {
	r := recovery.BranchResult{Branch: id, Detail: detail}
	switch {
	case t.State.Commits() == (end == txn.BranchCommitted):
		r.State = end
	case end == txn.BranchCommitted:
		r.Heuristic = txn.HeuristicCommit
	default:
		r.Heuristic = txn.HeuristicRollback
	}
	return r
}

// transaction returns a transaction for an operator's call.
func (n *Node) transaction(ctx context.Context, op string, id txn.ID) (t machine.Transaction, err error) {
	if err := n.requireReadable(ctx); err != nil {
		return t, txn.Wrap(op, id, err)
	}
	t, ok := n.stored(id)
	if !ok {
		return t, machine.Result{Code: machine.NotFound}.ToError(op, id)
	}
	return t, nil
}
