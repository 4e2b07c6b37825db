package txn_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn"
)

// onePhaseResource is a resource that can commit in one phase.
type onePhaseResource struct {
	fakeResource
	end txn.BranchState
}

func (p *onePhaseResource) OnePhase() bool { return p.end != 0 }

func (p *onePhaseResource) CommitOnePhase(ctx context.Context) (txn.BranchState, error) {
	p.s.tell("%s commits alone", p.name)
	if p.end == txn.BranchCommitted {
		return p.end, ctx.Err()
	}
	if p.end == txn.BranchRolledBack {
		return p.end, errOut
	}
	return 0, errOut
}

// unknownEnd is the end of a onePhaseResource whose answer is lost.
const unknownEnd = txn.BranchEnlisted

func (s *fakeManager) solo(ctx context.Context, tx *txn.Tx, end txn.BranchState) error {
	_, err := txn.Join(ctx, tx, "bank", func(ctx context.Context, enlist txn.EnlistFunc) (*onePhaseResource, error) {
		_, err := enlist(ctx, "session", nil)
		return &onePhaseResource{fakeResource{s, "bank"}, end}, err
	})
	return err
}

func TestASingleBranchIsCommittedInOnePhase(t *testing.T) {
	const begun = "begin \nenlist bank session\n"
	for name, c := range map[string]struct {
		stage *fakeManager
		end   txn.BranchState
		want  []error
		not   []error
		trace string
	}{
		"committed": {
			stage: &fakeManager{}, end: txn.BranchCommitted,
			trace: "delegate b1\nbank commits alone\nbank releases\ndone b1=committed",
		},
		"refused by the participant": {
			stage: &fakeManager{}, end: txn.BranchRolledBack,
			want:  []error{txn.ErrRolledBack, txn.ErrVotedNo, errOut},
			trace: "delegate b1\nbank commits alone\nbank releases\ndone b1=rolled-back",
		},
		"a lost report changes nothing": {
			stage: &fakeManager{errs: map[string]error{"done": txn.ErrUnavailable}}, end: txn.BranchCommitted,
			trace: "delegate b1\nbank commits alone\nbank releases\ndone b1=committed",
		},
		"not able to": {
			stage: &fakeManager{}, end: 0,
			trace: "bank prepares\ncommit b1=prepared own=true\nbank commits\nbank releases\ndone b1=committed",
		},
		"the coordinator knows of other branches": {
			stage: &fakeManager{errs: map[string]error{"delegate": txn.ErrConflict}}, end: txn.BranchCommitted,
			trace: "delegate b1\nbank prepares\ncommit b1=prepared own=true\nbank commits\nbank releases\ndone b1=committed",
		},
		"too late": {
			stage: &fakeManager{errs: map[string]error{"delegate": &txn.Error{Err: txn.ErrRolledBack, Cause: txn.CauseTimeout}}}, end: txn.BranchCommitted,
			want:  []error{txn.ErrRolledBack, txn.ErrTimedOut},
			trace: "delegate b1\nbank rolls back\nbank releases\ndone b1=rolled-back",
		},
		"perhaps delegated": {
			stage: &fakeManager{errs: map[string]error{"delegate": txn.ErrInDoubt}}, end: txn.BranchCommitted,
			want:  []error{txn.ErrRolledBack},
			not:   []error{txn.ErrInDoubt},
			trace: "delegate b1\nbank rolls back\nbank releases\ndone b1=rolled-back",
		},
		"perhaps delegated, and the session cannot be rolled back": {
			stage: &fakeManager{errs: map[string]error{"delegate": txn.ErrInDoubt, "bank rolls back": errOut}}, end: txn.BranchCommitted,
			want:  []error{txn.ErrInDoubt},
			not:   []error{txn.ErrRolledBack},
			trace: "delegate b1\nbank rolls back\nbank releases",
		},
		"the answer is lost, and the outcome is not known": {
			stage: &fakeManager{}, end: unknownEnd,
			want:  []error{txn.ErrInDoubt, errOut},
			not:   []error{txn.ErrRolledBack},
			trace: "delegate b1\nbank commits alone\nbank releases\nwait",
		},
		"the answer is lost, and it was committed": {
			stage: &fakeManager{info: txn.Info{ID: theID, State: txn.Committed}}, end: unknownEnd,
			trace: "delegate b1\nbank commits alone\nbank releases\nwait",
		},
		"the answer is lost, and the outcome can never be known": {
			stage: &fakeManager{info: txn.Info{ID: theID, State: txn.RolledBack, Cause: txn.CauseVoteNo, Heuristic: txn.HeuristicHazard}}, end: unknownEnd,
			want:  []error{txn.ErrHeuristic, errOut},
			not:   []error{txn.ErrRolledBack},
			trace: "delegate b1\nbank commits alone\nbank releases\nwait",
		},
		"the answer is lost, and it was rolled back": {
			stage: &fakeManager{info: txn.Info{ID: theID, State: txn.RolledBack, Cause: txn.CauseVoteNo}}, end: unknownEnd,
			want:  []error{txn.ErrRolledBack, txn.ErrVotedNo, errOut},
			trace: "delegate b1\nbank commits alone\nbank releases\nwait",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.stage
			err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
				return s.solo(ctx, tx, c.end)
			})
			for _, want := range c.want {
				if !errors.Is(err, want) {
					t.Errorf("error %q is not %q", err, want)
				}
			}
			if len(c.want) == 0 && err != nil {
				t.Error(err)
			}
			for _, not := range c.not {
				if errors.Is(err, not) {
					t.Errorf("error %q is %q", err, not)
				}
			}
			if diff := cmp.Diff(strings.Split(begun+c.trace, "\n"), strings.Split(s.told(), "\n")); diff != "" {
				t.Errorf("story (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOthersMayHaveBranches: when other applications may have branches, nothing is delegated.
func TestOthersMayHaveBranches(t *testing.T) {
	for name, share := range map[string]func(context.Context, *txn.Tx) error{
		"another service may attach": func(_ context.Context, tx *txn.Tx) error {
			txn.Inject(header{}, tx)
			return nil
		},
		"a service is enlisted": func(ctx context.Context, tx *txn.Tx) error {
			_, err := tx.Enlist(ctx, txn.Enlistment{Participant: "mailer"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeManager{}
			err := txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
				return errors.Join(s.solo(ctx, tx, txn.BranchCommitted), share(ctx, tx))
			})
			if err != nil || strings.Contains(s.told(), "delegate") || !strings.Contains(s.told(), "commit b1=prepared") {
				t.Errorf("%v:\n%s", err, s.told())
			}
		})
	}
}
