package participanttest

import (
	"context"
	"errors"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// settler is the participant under test, if branches of it can be committed in
// one phase.
func (b *bench) settler() participant.Settler { return b.p.(participant.Settler) }

// alone is a session at work that can commit in one phase.
func (b *bench) alone() (participant.Branch, string, txn.Session, txn.OnePhaser) {
	b.t.Helper()
	br, key := b.branch()
	s, info := b.Work(b.t, br.XID, key, 7)
	br.Session = info
	one, ok := s.(txn.OnePhaser)
	if !ok || !one.OnePhase() {
		b.t.Fatalf("a %T cannot commit in one phase, although the participant can settle it", s)
	}
	return br, key, s, one
}

func (b *bench) wantSettled(br participant.Branch, endings ...participant.Ending) {
	b.t.Helper()
	b.want(b.settler().Settle, br, endings...)
}

func commitOnePhase(b *bench) {
	br, key, s, one := b.alone()
	b.wantValue(key, 0)
	state, err := one.CommitOnePhase(b.t.Context())
	s.Release()
	if state != txn.BranchCommitted || err != nil {
		b.t.Fatalf("%v, %v", state, err)
	}
	b.wantValue(key, 7)
	b.wantListed("", br.XID, false)
	b.wantSettled(br, committed)
	b.wantSettled(br, committed)
	other := b.open()
	b.want(other.(participant.Settler).Settle, br, committed)
	if err := b.write(key, 8, Patience); err != nil {
		b.t.Errorf("still locked: %v", err)
	}
	b.wantValue(key, 8)
}

func settleHanging(b *bench) {
	br, key, s, one := b.alone()
	defer s.Release()
	b.wantSettled(br, rolledBack)
	if err := b.write(key, 8, Patience); err != nil {
		b.t.Errorf("the session still has its locks: %v", err)
	}
	if state, err := one.CommitOnePhase(b.t.Context()); state == txn.BranchCommitted || err == nil {
		b.t.Errorf("committed after it was settled: %v, %v", state, err)
	}
	b.wantSettled(br, rolledBack)
	b.wantValue(key, 8)
}

func settleNever(b *bench) {
	br, _ := b.branch()
	b.wantSettled(br, rolledBack, unknown)
	br.Session = "nonsense"
	b.wantSettled(br, rolledBack, unknown)
	br.XID = txn.XID(b.Cluster+"x", br.TX, br.ID)
	if r, err := b.settler().Settle(b.t.Context(), br); !errors.Is(err, txn.ErrInvalid) {
		b.t.Errorf("another cluster's branch: %v, %v", r, err)
	}
}

// settlePrepared: what is prepared has not ended, and is not driven anywhere.
func settlePrepared(b *bench) {
	br, key := b.prepared()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
	defer cancel()
	if r, err := b.settler().Settle(ctx, br); err == nil && r.Ending != unknown {
		b.t.Errorf("a prepared branch is said to be %v", r)
	}
	b.wantListed("", br.XID, true)
	b.want(b.p.Commit, br, committed)
	b.wantValue(key, 7)
}

// races is how often a commit races with its settling.
const races = 200

func settleRaces(b *bench) {
	var ends [3]int
	for n := range races {
		br, key, s, one := b.alone()
		var state txn.BranchState
		var err error
		settled := make(chan participant.Ending, 1)
		settle := func() { settled <- b.drive(b.settler().Settle, br) }
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
			// So that either is sometimes first.
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
		b.wantSettled(br, end)
		ends[end]++
	}
	if ends[committed] == 0 || ends[rolledBack] == 0 {
		b.t.Errorf("it was no race: %v", ends)
	}
}

// settleAfterRestart: a crash may cost the proof, and never makes a wrong one.
func settleAfterRestart(b *bench) {
	done, key, s, one := b.alone()
	if state, err := one.CommitOnePhase(b.t.Context()); state != txn.BranchCommitted {
		b.t.Fatal(state, err)
	}
	s.Release()
	open, other, s, one := b.alone()
	defer s.Release()
	b.Restart(b.t)
	b.wantSettled(done, committed, unknown)
	b.wantSettled(open, rolledBack, unknown)
	if state, err := one.CommitOnePhase(b.t.Context()); state == txn.BranchCommitted || err == nil {
		b.t.Errorf("committed after it was settled: %v, %v", state, err)
	}
	b.wantSettled(open, rolledBack, unknown)
	b.wantValue(key, 7)
	b.wantValue(other, 0)
}
