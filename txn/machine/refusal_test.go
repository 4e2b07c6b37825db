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
		NoToken: txn.ErrNotFound, NoSession: txn.ErrNotFound, SessionOver: txn.ErrNotFound,
		Undecided: txn.ErrConflict, Unfinished: txn.ErrConflict, Conflict: txn.ErrConflict,
		MissingVote: txn.ErrConflict, BadAck: txn.ErrConflict, Delegated: txn.ErrConflict,
		NotSole: txn.ErrConflict, NotInDoubt: txn.ErrConflict, Replaced: txn.ErrConflict, InUse: txn.ErrConflict,
		BadVote: txn.ErrInvalid, TooMany: txn.ErrInvalid, Malformed: txn.ErrInvalid,
		Held: txn.ErrUnavailable, NotBootstrapped: txn.ErrUnavailable, Forgotten: txn.ErrForgotten,
	}
	details := map[string]Code{}
	for code, name := range codeNames {
		code := Code(code)
		if code == OK || code == Decided {
			continue // Decided: which error depends on how
		}
		e := Result{Code: code, Branch: 7}.Refusal("commit", one)
		if want := kinds[code]; want == nil || !errors.Is(e, want) {
			t.Errorf("%s is %v; want %v", name, e.Err, want)
		}
		if other, ok := details[e.Detail]; ok || e.Detail == "" {
			t.Errorf("%s is told as %q, and so is %s", name, e.Detail, codeNames[other])
		}
		details[e.Detail] = code
	}
	for _, code := range []Code{NoBranch, MissingVote, BadVote, BadAck, Delegated, Replaced} {
		if e := (Result{Code: code, Branch: 7}).Refusal("commit", one); !strings.Contains(e.Detail, "7") {
			t.Errorf("%s does not name the branch: %q", codeNames[code], e.Detail)
		}
	}
}
