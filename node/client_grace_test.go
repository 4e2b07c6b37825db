package node

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// recordingParticipant records when recovery ends branches at a participant, and whether the call
// states that the application may have ended them.
type recordingParticipant struct {
	participant.Participant
	mu   sync.Mutex
	ends []endedBranch
}

type endedBranch struct {
	at  time.Time
	own bool
}

func (w *recordingParticipant) note(b participant.Branch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends = append(w.ends, endedBranch{time.Now(), b.ClientCompletes})
}

func (w *recordingParticipant) noted() []endedBranch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ends
}

func (w *recordingParticipant) Commit(ctx context.Context, b participant.Branch) (participant.Result, error) {
	w.note(b)
	return w.Participant.Commit(ctx, b)
}

func (w *recordingParticipant) Rollback(ctx context.Context, b participant.Branch) (participant.Result, error) {
	w.note(b)
	return w.Participant.Rollback(ctx, b)
}

// recordingVoter is a recordingParticipant that the coordinator asks for votes.
type recordingVoter struct {
	*recordingParticipant
	participant.Preparer
}

func recordEnds(p participant.Participant) *recordingParticipant {
	return &recordingParticipant{Participant: p}
}

// TestGraceIsForTheApplicationsBranches: recovery ends the branches that the coordinator prepared
// as soon as the transaction is decided, and leaves the client a grace period of a second for
// the others, unless the transaction timed out.
func TestGraceIsForTheApplicationsBranches(t *testing.T) {
	for _, c := range []struct {
		name  string
		other *voter // in addition to a participant that votes yes at once
		votes []txn.BranchVote
		state txn.State
		after time.Duration // until the decision
		grace time.Duration
	}{
		{"yes", yesAfter(300 * time.Millisecond), prepared(1), txn.Committing, 300 * time.Millisecond, time.Second},
		{"no", refuses("sold out"), prepared(1), txn.RollingBack, 0, time.Second},
		{"no answer", hangs(), prepared(1), txn.RollingBack, 5 * time.Second, 0},
		{"voted for", hangs(), prepared(3), txn.Committing, 0, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				yes := yesAfter(0)
				bank, shop := recordEnds(newFakeParticipant()), recordEnds(yes)
				n := open(t, t.TempDir(), slow, with(participantMap{"bank": bank, "shop": recordingVoter{shop, yes}, "stock": c.other}))
				start := time.Now()
				b := beginAt(t, n, 5*time.Second, "bank", "shop", "stock")
				bank.Participant.(*fakeParticipant).prepare(b.Branches[0].XID)
				o, err := n.Commit(t.Context(), b.ID, txn.CommitRequest{Votes: c.votes, ClientCompletes: true})
				// The other branches may be rolled back before the answer is taken.
				late := c.state == txn.RollingBack && o.State == txn.RolledBack
				if o.State != c.state && !late || (err == nil) != c.state.Commits() {
					t.Errorf("%+v, %v", o, err)
				}
				info := finished(t, n, b.ID)
				if info.State.Commits() != c.state.Commits() {
					t.Errorf("%v", info.State)
				}
				for name, x := range map[string]struct {
					ends []endedBranch
					own  bool
					at   time.Duration
				}{
					"bank": {bank.noted(), true, c.after + c.grace},
					"shop": {shop.noted(), false, c.after},
				} {
					if len(x.ends) != 1 {
						t.Errorf("%s: %d calls", name, len(x.ends))
						continue
					}
					if late := x.ends[0].at.Sub(start) - x.at; late < 0 || late > 150*time.Millisecond || x.ends[0].own != x.own {
						t.Errorf("%s: %+v after %v, want %v", name, x.ends[0], x.ends[0].at.Sub(start), x.at)
					}
				}
			})
		})
	}
}

// TestApplicationsThatFinishDoNotMeetRecovery: recovery calls no participant for branches that the
// client has completed, also if another branch was prepared by the coordinator.
func TestApplicationsThatFinishDoNotMeetRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := recordEnds(newFakeParticipant())
		n := open(t, t.TempDir(), slow, with(participantMap{"bank": bank, "shop": yesAfter(300 * time.Millisecond)}))
		for _, names := range [][]string{{"bank"}, {"bank", "shop"}} {
			b := beginAt(t, n, time.Minute, names...)
			if o, err := n.Commit(t.Context(), b.ID, txn.CommitRequest{Votes: prepared(1), ClientCompletes: true}); err != nil || !o.State.Commits() {
				t.Fatalf("%+v, %v", o, err)
			}
			pass(900 * time.Millisecond)
			bank.Participant.(*fakeParticipant).byHand(b.Branches[0].XID, participant.Committed)
			if err := n.ReportCompletion(t.Context(), b.ID, txn.CompletionReport{Branch: 1, State: txn.BranchCommitted}); err != nil {
				t.Fatal(err)
			}
			pass(10 * time.Second)
			if info := finished(t, n, b.ID); info.State != txn.Committed || len(bank.noted()) != 0 {
				t.Errorf("%v, %d calls", info.State, len(bank.noted()))
			}
		}
	})
}

// TestShortDelegationIsResolvedAtItsDeadline: the grace period of other transactions does not
// delay asking for the outcome of a delegated branch.
func TestShortDelegationIsResolvedAtItsDeadline(t *testing.T) {
	for _, timeout := range []time.Duration{300 * time.Millisecond, time.Second, 1100 * time.Millisecond, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			bank := newFakeParticipant()
			n := open(t, t.TempDir(), slow, with(participantMap{"bank": bank}))
			pass(37 * time.Millisecond) // into an interval
			start := time.Now()
			b := beginAt(t, n, timeout, "bank")
			delegate(t, n, b)
			finished(t, n, b.ID)
			if late := time.Since(start) - timeout; late < 0 || late > 150*time.Millisecond || bank.outcomeLookups() != 1 {
				t.Errorf("timeout %v: %v late, %d settlements", timeout, late, bank.outcomeLookups())
			}
		})
	}
}
