package participanttest

import (
	"context"
	"errors"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// resolver is the participant under test, if its branches can be committed in one phase.
func (b *fixture) resolver() participant.OutcomeResolver { return b.p.(participant.OutcomeResolver) }

// onePhaseBranch is a working branch that can commit in one phase.
func (b *fixture) onePhaseBranch() (participant.Branch, string, txn.Resource, txn.OnePhaseCommitter) {
	b.t.Helper()
	br, key := b.branch()
	s, info := b.Work(b.t, br.XID, key, 7)
	br.SessionRef = info
	one, ok := s.(txn.OnePhaseCommitter)
	if !ok || !one.OnePhase() {
		b.t.Fatalf("a %T cannot commit in one phase, although the participant can settle it", s)
	}
	return br, key, s, one
}

func (b *fixture) wantResolved(br participant.Branch, endings ...participant.BranchOutcome) {
	b.t.Helper()
	b.want(b.resolver().ResolveOutcome, br, endings...)
}

func commitOnePhase(b *fixture) {
	br, key, s, one := b.onePhaseBranch()
	b.wantValue(key, 0)
	state, err := one.CommitOnePhase(b.t.Context())
	s.Release()
	if state != txn.BranchCommitted || err != nil {
		b.t.Fatalf("%v, %v", state, err)
	}
	b.wantValue(key, 7)
	b.wantListed("", br.XID, false)
	b.wantResolved(br, committed)
	b.wantResolved(br, committed)
	other := b.open()
	b.want(other.(participant.OutcomeResolver).ResolveOutcome, br, committed)
	if err := b.write(key, 8, Patience); err != nil {
		b.t.Errorf("still locked: %v", err)
	}
	b.wantValue(key, 8)
}

func resolveHanging(b *fixture) {
	br, key, s, one := b.onePhaseBranch()
	defer s.Release()
	b.wantResolved(br, rolledBack)
	if err := b.write(key, 8, Patience); err != nil {
		b.t.Errorf("the session still has its locks: %v", err)
	}
	if state, err := one.CommitOnePhase(b.t.Context()); state == txn.BranchCommitted || err == nil {
		b.t.Errorf("committed after it was settled: %v, %v", state, err)
	}
	b.wantResolved(br, rolledBack)
	b.wantValue(key, 8)
}

func resolveNeverBegun(b *fixture) {
	br, _ := b.branch()
	b.wantResolved(br, rolledBack, unknown)
	br.SessionRef = "nonsense"
	b.wantResolved(br, rolledBack, unknown)
	br.XID = txn.XID(b.Cluster+"x", br.TX, br.ID)
	if r, err := b.resolver().ResolveOutcome(b.t.Context(), br); !errors.Is(err, txn.ErrInvalid) {
		b.t.Errorf("another cluster's branch: %v, %v", r, err)
	}
}

// resolvePrepared: a prepared branch has not ended, and is not driven by the call.
func resolvePrepared(b *fixture) {
	br, key := b.prepared()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
	defer cancel()
	if r, err := b.resolver().ResolveOutcome(ctx, br); err == nil && r.Outcome != unknown {
		b.t.Errorf("a prepared branch is said to be %v", r)
	}
	b.wantListed("", br.XID, true)
	b.want(b.p.Commit, br, committed)
	b.wantValue(key, 7)
}

// races is how often a commit races with resolving its outcome.
const races = 200

func resolveRaces(b *fixture) {
	var ends [3]int
	for n := range races {
		br, key, s, one := b.onePhaseBranch()
		var state txn.BranchState
		var err error
		settled := make(chan participant.BranchOutcome, 1)
		settle := func() { settled <- b.drive(b.resolver().ResolveOutcome, br) }
		commit := func() { state, err = one.CommitOnePhase(b.t.Context()) }
		switch n % 10 {
		case 0:
			settle()
			commit()
		case 1:
			commit()
			settle()
		default:
			go settle()
			// So that each of them is first at times.
			<-time.After(time.Duration(n%20) * 100 * time.Microsecond)
			commit()
		}
		end := <-settled
		s.Release()
		switch {
		case end != committed && end != rolledBack,
			state == txn.BranchCommitted && end != committed,
			state == txn.BranchRolledBack && end != rolledBack,
			(state == txn.BranchCommitted) != (err == nil):
			b.t.Fatalf("try %d: the session says %v, %v; settled as %v", n, state, err, end)
		}
		want := int64(0)
		if end == committed {
			want = 7
		}
		b.wantValue(key, want)
		b.wantResolved(br, end)
		ends[end]++
	}
	if ends[committed] == 0 || ends[rolledBack] == 0 {
		b.t.Errorf("it was no race: %v", ends)
	}
}

// resolveAfterRestart: a crash may cost the proof, and never makes a wrong one.
func resolveAfterRestart(b *fixture) {
	done, key, s, one := b.onePhaseBranch()
	if state, err := one.CommitOnePhase(b.t.Context()); state != txn.BranchCommitted {
		b.t.Fatal(state, err)
	}
	s.Release()
	open, other, s, one := b.onePhaseBranch()
	defer s.Release()
	b.Restart(b.t)
	b.wantResolved(done, committed, unknown)
	b.wantResolved(open, rolledBack, unknown)
	if state, err := one.CommitOnePhase(b.t.Context()); state == txn.BranchCommitted || err == nil {
		b.t.Errorf("committed after it was settled: %v, %v", state, err)
	}
	b.wantResolved(open, rolledBack, unknown)
	b.wantValue(key, 7)
	b.wantValue(other, 0)
}

// readOutcome is a [call] of ReadOutcome: the outcome is zero if it is not known.
func (b *fixture) readOutcome(ctx context.Context, br participant.Branch) (participant.Result, error) {
	r, known, err := b.p.(participant.OutcomeReader).ReadOutcome(ctx, br)
	if known != (r.Outcome == committed || r.Outcome == rolledBack) {
		b.t.Errorf("known %v: %v", known, r)
	}
	if known && r.Detail == "" {
		b.t.Errorf("it is not said how it is known: %v", r)
	}
	return r, err
}

// readOutcome reports what is proved, and has no effect on a branch that is open or prepared.
func readOutcome(b *fixture) {
	const notKnown participant.BranchOutcome = 0
	br, key := b.branch()
	b.want(b.readOutcome, br, notKnown) // not begun
	s, info := b.Work(b.t, br.XID, key, 7)
	br.SessionRef = info
	b.want(b.readOutcome, br, notKnown)
	b.want(b.readOutcome, br, notKnown)
	state, err := s.(txn.OnePhaseCommitter).CommitOnePhase(b.t.Context())
	s.Release()
	if state != txn.BranchCommitted || err != nil {
		b.t.Errorf("it was disturbed: %v, %v", state, err)
	}
	b.want(b.readOutcome, br, committed)
	b.want(b.readOutcome, br, committed)
	b.wantValue(key, 7)

	br, _, s, _ = b.onePhaseBranch()
	b.wantResolved(br, rolledBack)
	b.want(b.readOutcome, br, rolledBack)
	s.Release()

	br, _, s, _ = b.onePhaseBranch()
	if err := s.Rollback(b.t.Context()); err != nil {
		b.t.Error(err)
	}
	s.Release()
	for range 2 { // nothing proves it, not even a barrier by the first call
		b.want(b.readOutcome, br, notKnown)
	}
	b.wantResolved(br, rolledBack)

	br, key = b.prepared()
	b.want(b.readOutcome, br, notKnown)
	b.wantListed("", br.XID, true)
	b.want(b.p.Commit, br, committed)
	b.want(b.readOutcome, br, committed)
	b.wantValue(key, 7)

	br.SessionRef = "nonsense"
	if r, err := b.readOutcome(b.t.Context(), br); r.Outcome == rolledBack {
		b.t.Errorf("without its session reference: %v, %v", r, err)
	}
	br.XID = txn.XID(b.Cluster+"x", br.TX, br.ID)
	if r, err := b.readOutcome(b.t.Context(), br); !errors.Is(err, txn.ErrInvalid) {
		b.t.Errorf("another cluster's branch: %v, %v", r, err)
	}
}

// readOutcomeRaces: a commit is never disturbed, and is seen when it has been answered.
func readOutcomeRaces(b *fixture) {
	ctx, cancel := context.WithTimeout(b.t.Context(), Patience)
	defer cancel()
	for n := range races / 4 {
		br, key, s, one := b.onePhaseBranch()
		seen := make(chan participant.BranchOutcome, 1)
		go func() {
			for {
				r, err := b.readOutcome(ctx, br)
				if err != nil || r.Outcome != 0 {
					seen <- r.Outcome
					return
				}
			}
		}()
		<-time.After(time.Duration(n%20) * 100 * time.Microsecond)
		state, err := one.CommitOnePhase(b.t.Context())
		s.Release()
		if end := <-seen; state != txn.BranchCommitted || end != committed {
			b.t.Fatalf("try %d: the session says %v, %v; read as %v", n, state, err, end)
		}
		b.wantValue(key, 7)
	}
}
