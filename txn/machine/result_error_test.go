package machine

import (
	"errors"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/txn"
)

// TestEveryRefusalIsOfItsKind, and has a text of its own.
func TestEveryRefusalIsOfItsKind(t *testing.T) {
	kinds := map[Code]error{
		NotFound: txn.ErrNotFound, NoParticipant: txn.ErrNotFound, NoBranch: txn.ErrNotFound,
		NoToken: txn.ErrNotFound, NoSession: txn.ErrNotFound, SessionEnded: txn.ErrNotFound,
		Undecided: txn.ErrConflict, Unfinished: txn.ErrConflict, Conflict: txn.ErrConflict,
		MissingVote: txn.ErrConflict, BadCompletion: txn.ErrConflict, Delegated: txn.ErrConflict,
		NotSoleBranch: txn.ErrConflict, NotInDoubt: txn.ErrConflict, SessionRefReplaced: txn.ErrConflict, InUse: txn.ErrConflict,
		BadVote: txn.ErrInvalid, TooMany: txn.ErrInvalid, Malformed: txn.ErrInvalid,
		RecoveryPaused: txn.ErrUnavailable, NotBootstrapped: txn.ErrUnavailable, Forgotten: txn.ErrForgotten,
	}
	details := map[string]Code{}
	for code, name := range codeNames {
		code := Code(code)
		if code == OK || code == Decided {
			continue // Decided: which error depends on how
		}
		e := Result{Code: code, Branch: 7}.ToError("commit", one)
		if want := kinds[code]; want == nil || !errors.Is(e, want) {
			t.Errorf("%s is %v; want %v", name, e.Err, want)
		}
		if other, ok := details[e.Detail]; ok || e.Detail == "" {
			t.Errorf("%s is told as %q, and so is %s", name, e.Detail, codeNames[other])
		}
		details[e.Detail] = code
	}
	for _, code := range []Code{NoBranch, MissingVote, BadVote, BadCompletion, Delegated, SessionRefReplaced} {
		if e := (Result{Code: code, Branch: 7}).ToError("commit", one); !strings.Contains(e.Detail, "7") {
			t.Errorf("%s does not name the branch: %q", codeNames[code], e.Detail)
		}
	}
}

// TestRefusalOfWhatIsDecided: which error it is depends on the decision, on what is known of the branches, and on the call.
func TestRefusalOfWhatIsDecided(t *testing.T) {
	rolledBack := Result{Code: Decided, State: txn.RolledBack}
	committing := Result{Code: Decided, State: txn.Committing}
	hazard, byHand := rolledBack, rolledBack
	hazard.Heuristic, byHand.EndedByApplication = txn.HeuristicCommit, true
	for _, tt := range []struct {
		result Result
		op     string
		want   error
	}{
		{rolledBack, "commit", txn.ErrRolledBack},
		{Result{Code: Decided, State: txn.RollingBack}, "enlist", txn.ErrRolledBack},
		{hazard, "commit", txn.ErrHeuristic},
		{hazard, "rollback", txn.ErrHeuristic},
		{byHand, "commit", txn.ErrEndedByApplication},
		{Result{Code: OK, State: txn.RolledBack, EndedByApplication: true}, "rollback", txn.ErrEndedByApplication},
		{committing, "rollback", txn.ErrConflict},
		{committing, OpResolve, txn.ErrConflict},
		{committing, "enlist", txn.ErrNotActive},
		{Result{Code: Decided, State: txn.Preparing}, "enlist", txn.ErrNotActive},
	} {
		if e := tt.result.ToError(tt.op, one); e.Err != tt.want || e.State != tt.result.State || e.Detail == "" {
			t.Errorf("%s of %+v is %v; want %v", tt.op, tt.result, e, tt.want)
		}
	}
}
