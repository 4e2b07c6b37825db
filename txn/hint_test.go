package txn_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/txn"
)

// Every error about a transaction has a hint, and only that of a rollback permits doing the
// work again.
func TestEveryErrorSaysWhatToDo(t *testing.T) {
	id := txn.ID{1}
	for _, c := range []struct {
		err   error
		cause txn.Cause
		want  string
	}{
		{txn.ErrRolledBack, 0, "begin again"},
		{txn.ErrRolledBack, txn.CauseTimeout, "longer timeout"},
		{txn.ErrRolledBack, txn.CauseVoteNo, "correct what the participant says"},
		{txn.ErrRolledBack, txn.CauseSessionExpired, "open another session"},
		{txn.ErrInDoubt, 0, "before anything is repeated"},
		{txn.ErrHeuristic, 0, "an operator has to look; Explain"},
		{txn.ErrEndedByApplication, 0, "look at the data before anything is repeated"},
		{fmt.Errorf("%w: %w", txn.ErrHeuristic, txn.ErrRolledBack), 0, "an operator has to look"},
		{txn.ErrNotFound, 0, "check the name"},
		{txn.ErrConflict, 0, "Get returns the state"},
		{txn.ErrNotActive, 0, "Get returns the state"},
		{txn.ErrManaged, 0, "end the transaction"},
		{txn.ErrWaitTimeout, 0, "wait again"},
		{txn.ErrUnavailable, 0, "try again"},
	} {
		e := &txn.Error{Op: "run", ID: id, Cause: c.cause, Err: c.err}
		next := e.Hint()
		if !strings.Contains(next, c.want) || strings.Contains(next, "\n") {
			t.Errorf("%v: %q, want %q", e, next, c.want)
		}
		if again := strings.Contains(next, "begin again"); again != (c.err == txn.ErrRolledBack) {
			t.Errorf("%v: %q", e, next)
		}
	}
}
