package participanttest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

const (
	committed  = participant.Committed
	rolledBack = participant.RolledBack
	unknown    = participant.Unknown
)

// Run runs the suite on a participant.
func Run(t *testing.T, h Harness) {
	for _, c := range tests(t, h) {
		t.Run(c.name, func(t *testing.T) { c.try(newFixture(t, h)) })
	}
}

type testCase struct {
	name string
	try  func(*fixture)
}

// tests returns the tests for what the participant can do.
func tests(t *testing.T, h Harness) []testCase {
	all := []testCase{
		{"Check", check},
		{"PrepareThenCommit", prepareThenCommit},
		{"PrepareThenRollback", prepareThenRollback},
		{"FinishingAgainChangesNothing", finishAgain},
		{"ManyWorkersFinishOneBranch", manyWorkers},
		{"NeverPrepared", neverPrepared},
		{"UnpreparedSessionIsNotCommitted", commitUnprepared},
		{"RollbackTakesTheLocksOfAHangingSession", rollbackHanging},
		{"FinishedByHand", finishedManually},
		{"OnlyOwnPrefixIsListed", prefix},
		{"ForeignBranchIsRefused", foreign},
		{"EndedContext", endedContext},
		{"RestartKeepsWhatIsPrepared", restart},
		{"PreparedBranchKeepsItsLocks", locks},
		{"LatePrepareIsRefusedOrFound", latePrepare},
	}
	p := h.Open(t)
	defer func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	if _, ok := p.(participant.Inspector); ok {
		all = append(all, testCase{"InspectPrepared", inspectPrepared}, testCase{"InspectEnded", inspectEnded}, testCase{"InspectOpen", inspectOpen})
	}
	if _, ok := p.(participant.LockInspector); ok {
		all = append(all, testCase{"Survey", inspectAllLocks}, testCase{"SurveyWaiters", inspectWaiters})
	}
	if _, ok := p.(participant.OutcomeResolver); ok {
		all = append(all,
			testCase{"CommitOnePhase", commitOnePhase},
			testCase{"SettleEndsAHangingSession", resolveHanging},
			testCase{"SettleWhatNeverWas", resolveNeverBegun},
			testCase{"SettleDrivesNothing", resolvePrepared},
			testCase{"SettleRacesWithCommit", resolveRaces},
			testCase{"SettleAfterRestart", resolveAfterRestart})
	}
	if _, ok := p.(participant.OutcomeReader); ok {
		all = append(all, testCase{"ReadOutcome", readOutcome}, testCase{"ReadOutcomeRacesWithCommit", readOutcomeRaces})
	}
	return all
}

func check(b *fixture) {
	if err := b.p.Check(b.t.Context()); err != nil {
		b.t.Error(err)
	}
}

func prepareThenCommit(b *fixture) {
	br, key := b.prepared()
	b.wantValue(key, 0)
	b.wantListed(txn.ClusterPrefix(b.Cluster), br.XID, true)
	b.want(b.p.Commit, br, committed)
	b.wantValue(key, 7)
	b.wantListed(txn.ClusterPrefix(b.Cluster), br.XID, false)
}

func prepareThenRollback(b *fixture) {
	br, key := b.prepared()
	b.want(b.p.Rollback, br, rolledBack)
	b.wantValue(key, 0)
	b.wantListed(txn.ClusterPrefix(b.Cluster), br.XID, false)
}

func finishAgain(b *fixture) {
	br, key := b.prepared()
	b.want(b.p.Commit, br, committed)
	br.Attempts++
	b.want(b.p.Commit, br, committed)
	b.want(b.open().Commit, br, committed) // by a coordinator that knows nothing of the first
	b.want(b.p.Rollback, br, committed, unknown)
	b.wantValue(key, 7)

	br, key = b.prepared()
	b.want(b.p.Rollback, br, rolledBack)
	b.want(b.p.Rollback, br, rolledBack)
	b.want(b.open().Rollback, br, rolledBack)
	b.want(b.p.Commit, br, rolledBack, unknown)
	b.wantValue(key, 0)
}

func manyWorkers(b *fixture) {
	for _, end := range []participant.BranchOutcome{committed, rolledBack} {
		br, key := b.prepared()
		var wg sync.WaitGroup
		for range 4 {
			p := b.open()
			do := p.Commit
			if end == rolledBack {
				do = p.Rollback
			}
			for range 4 {
				wg.Go(func() { b.want(do, br, end) })
			}
		}
		wg.Wait()
		if end == committed {
			b.wantValue(key, 7)
		} else {
			b.wantValue(key, 0)
		}
	}
}

func neverPrepared(b *fixture) {
	br, _ := b.branch()
	b.want(b.p.Commit, br, rolledBack, unknown)
	b.want(b.p.Rollback, br, rolledBack)
	br, _ = b.branch()
	b.want(b.p.Rollback, br, rolledBack)
	b.want(b.p.Commit, br, rolledBack, unknown)
	// That it may have been committed does not prove that it was.
	br, _ = b.branch()
	br.Vote, br.Attempts, br.ClientCompletes = txn.VotePrepared, 3, true
	b.want(b.p.Commit, br, rolledBack, unknown)
}

func commitUnprepared(b *fixture) {
	br, key := b.branch()
	s, info := b.Work(b.t, br.XID, key, 7)
	defer s.Release()
	br.SessionRef = info
	if r, err := b.p.Commit(b.t.Context(), br); err == nil && r.Outcome == committed {
		b.t.Errorf("an unprepared branch is said to be committed: %v", r)
	}
	if err := s.Rollback(b.t.Context()); err != nil {
		b.t.Error(err)
	}
	b.want(b.p.Commit, br, rolledBack, unknown)
	b.wantValue(key, 0)
}

func rollbackHanging(b *fixture) {
	br, key := b.branch()
	s, info := b.Work(b.t, br.XID, key, 7)
	defer s.Release()
	br.SessionRef = info
	b.want(b.p.Rollback, br, rolledBack)
	if err := b.write(key, 8, Patience); err != nil {
		b.t.Errorf("the session still has its locks: %v", err)
	}
	if vote, err := s.Prepare(b.t.Context()); vote == txn.VotePrepared {
		b.t.Errorf("the session voted %v, %v after its rollback", vote, err)
	}
	b.wantValue(key, 8)
}

func finishedManually(b *fixture) {
	br, key := b.prepared()
	b.FinishManually(b.t, br.XID, true)
	b.want(b.p.Rollback, br, committed, unknown)
	b.want(b.p.Commit, br, committed, unknown)
	b.wantValue(key, 7)

	br, key = b.prepared()
	b.FinishManually(b.t, br.XID, false)
	b.want(b.p.Commit, br, rolledBack, unknown)
	b.want(b.p.Rollback, br, rolledBack)
	b.wantValue(key, 0)
}

// prefix prepares names that a careless search would take for the cluster's.
func prefix(b *fixture) {
	own, _ := b.prepared()
	mine := txn.ClusterPrefix(b.Cluster)
	var others []string
	for _, name := range []string{
		txn.ClusterPrefix(b.Cluster+"x") + "1",
		"x" + mine + "1",
		"TXM_" + b.Cluster + "_1",
		"txm-" + b.Cluster + "-1", // '_' is a wildcard to LIKE
		"another owner's",
	} {
		br, key := b.branch()
		br.XID = name
		b.prepare(&br, key)
		others = append(others, name)
	}
	b.wantListed(mine, own.XID, true)
	for _, name := range others {
		b.wantListed(mine, name, false)
		b.wantListed("", name, true)
	}
	b.wantListed(mine+"%", own.XID, false)
	b.want(b.p.Rollback, own, rolledBack)
	for _, name := range others {
		b.wantListed("", name, true)
		b.FinishManually(b.t, name, false)
	}
}

func foreign(b *fixture) {
	br, key := b.branch()
	br.XID = txn.XID(b.Cluster+"x", br.TX, br.ID)
	b.prepare(&br, key)
	for name, do := range map[string]call{"commit": b.p.Commit, "rollback": b.p.Rollback} {
		if r, err := do(b.t.Context(), br); !errors.Is(err, txn.ErrInvalid) {
			b.t.Errorf("%s of another cluster's branch: %v, %v", name, r, err)
		}
	}
	b.wantListed("", br.XID, true)
	b.FinishManually(b.t, br.XID, false)
}

func endedContext(b *fixture) {
	br, key := b.prepared()
	ctx, cancel := context.WithCancel(b.t.Context())
	cancel()
	_, errCommit := b.p.Commit(ctx, br)
	_, errRollback := b.p.Rollback(ctx, br)
	_, errPrepared := b.p.Prepared(ctx, "")
	for name, err := range map[string]error{"commit": errCommit, "rollback": errRollback, "prepared": errPrepared, "check": b.p.Check(ctx)} {
		if !errors.Is(err, context.Canceled) {
			b.t.Errorf("%s: %v, want %v", name, err, context.Canceled)
		}
	}
	b.want(b.p.Commit, br, committed)
	b.wantValue(key, 7)
}

func restart(b *fixture) {
	toCommit, key := b.prepared()
	toRollback, other := b.prepared()
	b.Restart(b.t)
	b.wantValue(key, 0)
	b.want(b.p.Commit, toCommit, committed)
	b.want(b.p.Rollback, toRollback, rolledBack)
	b.wantValue(key, 7)
	b.wantValue(other, 0)
	b.Restart(b.t)
	b.want(b.p.Commit, toCommit, committed)
	b.want(b.p.Rollback, toRollback, rolledBack)
}

func locks(b *fixture) {
	for _, do := range []call{b.p.Commit, b.p.Rollback} {
		br, key := b.prepared()
		if err := b.write(key, 8, 200*time.Millisecond); err == nil {
			b.t.Error("a write succeeded on what a prepared branch has locked")
		}
		b.drive(do, br)
		if err := b.write(key, 9, Patience); err != nil {
			b.t.Errorf("still locked after the end: %v", err)
		}
		b.wantValue(key, 9)
	}
}

func latePrepare(b *fixture) {
	br, key := b.branch()
	b.want(b.p.Rollback, br, rolledBack) // before the branch even began
	s, info := b.Work(b.t, br.XID, key, 7)
	vote, err := s.Prepare(b.t.Context())
	s.Release()
	b.wantListed(txn.ClusterPrefix(b.Cluster), br.XID, vote == txn.VotePrepared)
	if vote != txn.VotePrepared && err == nil {
		b.t.Error("refused without a reason")
	}
	br.SessionRef = info
	b.want(b.p.Rollback, br, rolledBack)
	b.wantValue(key, 0)
}
