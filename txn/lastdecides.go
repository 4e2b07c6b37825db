package txn

import (
	"cmp"
	"context"
	"slices"
)

// lastDecides commits a transaction with several branches, of which the last one decides: see [Options.LastDecides]. done is false
// when the log has to decide; the votes that were taken by then stay.
//
// The coordinator knows all branches, and which one decides, before any prepares. That one commits only when all others
// have voted that they are prepared, so that its commit says so to all who find it. A branch that was only read has
// nothing that could be found later: its vote has to be in the log.
func (tx *Tx) lastDecides(ctx, work context.Context, enrollments []*enrollment) (done bool, err error) {
	if tx.rollbackOnly() != nil || waitAllOpened(work, enrollments) != nil {
		return false, nil
	}
	id, err := tx.announcer.awaitLast(work, len(enrollments))
	at := slices.IndexFunc(enrollments, func(en *enrollment) bool { return en.branch.ID == id })
	if id == 0 || err != nil || at < 0 {
		return false, nil // an error is that of the other way, too
	}
	others := slices.Delete(slices.Clone(enrollments), at, at+1)
	inParallel(others, func(en *enrollment) { en.prepare(work) })
	no, err := checkVotes(others)
	if err = cmp.Or(err, context.Cause(work)); err != nil {
		return true, tx.abort(ctx, "commit", tx.timedOut(work), no, err)
	}
	if slices.ContainsFunc(others, func(en *enrollment) bool { return en.vote != VotePrepared }) || !tx.announcer.decideLast() {
		return false, nil
	}
	return true, tx.commitOnePhase(ctx, enrollments[at], func(ends ...CompletionReport) { tx.reportCompletion(ctx, ends) })
}
