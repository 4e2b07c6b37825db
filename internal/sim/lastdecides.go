package sim

import (
	"context"
	"errors"

	"github.com/txmgr/txmgr/txn"
)

// lastDecides is the work of an application in one transaction with several branches, of which the one that was opened last decides:
// each enlistment appoints its branch and revokes the appointment of the one before. All others prepare; then the last is committed in
// one phase, which is the decision. It is written on the calls alone, beside package txn, so that the log is tested with what any
// client may send.
type lastDecides struct {
	*app

	r        *txRecord
	cluster  string
	branches []*openBranch // in the order of their ids; the last one decides, if appointed is true
	decides  bool
	post     bool // the service has a branch, too, which the coordinator prepares: then no branch decides
}

// openBranch is a branch with the connection that works for it.
type openBranch struct {
	onePhaseResource

	server     *server
	holds      func(xid string) bool
	branch     txn.Branch
	enlistment txn.Enlistment
}

// onePhaseResource is what both databases are for their applications.
type onePhaseResource interface {
	Prepare(context.Context) (txn.Vote, error)
	Commit(context.Context) error
	Rollback(context.Context) error
	CommitOnePhase(context.Context) (txn.BranchState, error)
	Release()
	exec(context.Context) error
}

// runLastDecides runs one transaction, and records what its application learns.
func (a *app) runLastDecides(ctx context.Context, r *txRecord, cluster string) {
	l := &lastDecides{app: a, r: r, cluster: cluster}
	a.w.countFault("last branch decides")
	state := l.run(ctx)
	for _, b := range l.branches {
		b.Release()
	}
	a.w.noteTx(r.id, "application %d, whose last branch decides, knows: %v", a.n, state)
	if !a.died() {
		r.reported = state
	}
}

// run returns [txn.Committed] or [txn.RolledBack], and zero when it does not know.
func (l *lastDecides) run(ctx context.Context) txn.State {
	if _, err := l.Begin(ctx, l.r.options); err != nil {
		return 0
	}
	if err := l.work(ctx); err != nil {
		return l.abandon(ctx)
	}
	var votes []txn.BranchVote
	others := l.branches
	if l.decides {
		others = others[:len(others)-1]
	}
	for _, b := range others {
		vote, err := b.Prepare(ctx)
		if err != nil || vote == txn.VoteNo {
			return l.abandon(ctx)
		}
		votes = append(votes, txn.BranchVote{Branch: b.branch.ID, Vote: vote})
		if vote != txn.VotePrepared && l.decides {
			return l.revokeAndCommit(ctx, votes) // the log has to know of the vote
		}
	}
	if !l.decides {
		return l.commit(ctx, votes)
	}
	return l.commitLast(ctx, others)
}

// work opens two branches in any order, or only one, enlists and uses them.
func (l *lastDecides) work(ctx context.Context) error {
	open := []func(context.Context) (*openBranch, error){l.openBank, l.openStock}
	if l.rng.oneIn(2) {
		open[0], open[1] = open[1], open[0]
	}
	if l.rng.oneIn(10) {
		open = open[:1]
	}
	for _, f := range open {
		b, err := f(ctx)
		if b != nil {
			l.branches = append(l.branches, b)
		}
		if err != nil {
			return err
		}
		if l.rng.oneIn(4) {
			l.w.countFault("last branch decides: enlistment again")
			_, _ = l.Enlist(ctx, l.r.id, l.branches[l.rng.n(len(l.branches))].enlistment) // it moves nothing
		}
	}
	for _, b := range l.branches {
		if name := b.enlistment.Participant; name == "bank" && l.rng.oneIn(8) {
			l.r.readOnly[name] = true
		} else if err := b.exec(ctx); err != nil {
			return err
		}
	}
	if l.post = l.rng.oneIn(6); l.post {
		l.decides = false
		l.r.branches = append(l.r.branches, "post")
		if _, err := l.Enlist(ctx, l.r.id, txn.Enlistment{Participant: "post", Payload: []byte("yes"), Revokes: true}); err != nil {
			return err
		}
	}
	if l.rng.oneIn(5) {
		l.w.countFault("application dawdles")
		sleepCtx(ctx, l.rng.between(0, 2*l.r.options.Timeout))
	}
	if l.rng.oneIn(10) {
		return errChanged
	}
	return nil
}

// enlist appoints the branch that is opened now, in place of the one before.
func (l *lastDecides) enlist(ctx context.Context, b *openBranch, participant, session string) (err error) {
	b.enlistment = txn.Enlistment{Participant: participant, SessionRef: session, Decides: true, Revokes: len(l.branches) > 0}
	l.r.branches = append(l.r.branches, participant)
	b.branch, err = l.Enlist(ctx, l.r.id, b.enlistment)
	l.decides = err == nil
	return err
}

func (l *lastDecides) openBank(ctx context.Context) (*openBranch, error) {
	s, err := l.w.pg.begin(ctx, l.r.id, l.app)
	if err != nil {
		return nil, err
	}
	s.marks = true
	b := &openBranch{onePhaseResource: s, server: &l.w.pg.server, holds: l.w.pg.holds}
	err = l.enlist(ctx, b, "bank", s.text())
	s.gid = b.branch.XID
	return b, err
}

func (l *lastDecides) openStock(ctx context.Context) (*openBranch, error) {
	s, err := l.w.maria.connect(ctx, l.r.id, l.app)
	if err != nil {
		return nil, err
	}
	b := &openBranch{onePhaseResource: s, server: &l.w.maria.server, holds: l.w.maria.holds}
	// The row comes first: it has to be in place before the branch is appointed.
	if err := s.begin(ctx, txn.XID(l.cluster, l.r.id, txn.BranchID(len(l.branches)+1))); err != nil {
		return b, err
	}
	return b, l.enlist(ctx, b, "stock", s.text())
}

// commitLast commits the branch that decides, and then the others. One report tells all ends.
func (l *lastDecides) commitLast(ctx context.Context, others []*openBranch) txn.State {
	last := l.branches[len(l.branches)-1]
	end, err := last.CommitOnePhase(ctx)
	switch {
	case end == txn.BranchRolledBack:
		return l.abandon(ctx)
	case err != nil:
		return l.ask(ctx)
	}
	l.w.countFault("last branch decides: committed")
	reports := []txn.CompletionReport{{Branch: last.branch.ID, State: txn.BranchCommitted}}
	for _, b := range others {
		if !b.holds(b.branch.XID) && b.server.effects(l.r.id) == 0 {
			l.w.violate("%v: %s has committed, which decides, and %s was not prepared any more", l.r.id, last.server.name, b.server.name)
		}
		if b.Commit(ctx) == nil {
			reports = append(reports, txn.CompletionReport{Branch: b.branch.ID, State: txn.BranchCommitted})
		}
	}
	_ = l.ReportCompletion(ctx, l.r.id, reports...)
	return txn.Committed
}

// revokeAndCommit leaves the decision to the log.
func (l *lastDecides) revokeAndCommit(ctx context.Context, votes []txn.BranchVote) txn.State {
	last := l.branches[len(l.branches)-1]
	e := last.enlistment
	e.Decides, e.Revokes = false, true
	if _, err := l.Enlist(ctx, l.r.id, e); err != nil {
		return l.abandon(ctx)
	}
	l.w.countFault("last branch decides: revoked")
	vote, err := last.Prepare(ctx)
	if err != nil || vote == txn.VoteNo {
		return l.abandon(ctx)
	}
	return l.commit(ctx, append(votes, txn.BranchVote{Branch: last.branch.ID, Vote: vote}))
}

// commit has the log decide, and carries a commit out.
func (l *lastDecides) commit(ctx context.Context, votes []txn.BranchVote) txn.State {
	_, err := l.Commit(ctx, l.r.id, txn.CommitRequest{Votes: votes, ClientCompletes: true})
	switch {
	case errors.Is(err, txn.ErrRolledBack) && !errors.Is(err, txn.ErrInDoubt):
		return txn.RolledBack
	case err != nil:
		return l.ask(ctx)
	}
	var reports []txn.CompletionReport
	for i, b := range l.branches {
		if votes[i].Vote == txn.VotePrepared && b.Commit(ctx) == nil {
			reports = append(reports, txn.CompletionReport{Branch: b.branch.ID, State: txn.BranchCommitted})
		}
	}
	_ = l.ReportCompletion(ctx, l.r.id, reports...)
	return txn.Committed
}

// abandon rolls all branches back. The no of the one that decides is the decision.
func (l *lastDecides) abandon(ctx context.Context) txn.State {
	ended := false
	for i, b := range l.branches {
		err := b.Rollback(ctx)
		ended = err == nil && i == len(l.branches)-1
	}
	if l.decides && ended {
		last := l.branches[len(l.branches)-1]
		o, err := l.Vote(ctx, l.r.id, txn.Votes{Votes: []txn.BranchVote{{Branch: last.branch.ID, Vote: txn.VoteNo}}, Reason: "sim: it was rolled back"})
		if err == nil && o.State.Decided() && !o.State.Commits() {
			l.w.countFault("last branch decides: a no")
			return txn.RolledBack
		}
	}
	return l.ask(ctx)
}

// ask wants a rollback, and waits until the end of the branch that decides is known.
func (l *lastDecides) ask(ctx context.Context) txn.State {
	if _, err := l.Rollback(ctx, l.r.id, "sim: the end is not known"); errors.Is(err, errDied) {
		return 0
	}
	i, err := l.Wait(ctx, l.r.id, txn.UntilDecided)
	switch {
	case err != nil || i.Heuristic != 0 || !i.State.Decided():
		return 0
	case i.State.Commits():
		return txn.Committed
	}
	return txn.RolledBack
}
