package call

import (
	"context"
	"fmt"

	"github.com/txmgr/txmgr/internal/redact"
	"github.com/txmgr/txmgr/participant"
)

// CommitRecordError is why a branch of a transaction that the log does not know is not
// rolled back.
type CommitRecordError struct{ detail string }

// Error says what the proof is, and what the operator has to do.
func (e *CommitRecordError) Error() string {
	return "prepared, although there is proof that it was committed once (" + e.detail +
		"): compare with the other participants, and end it there by hand"
}

// CheckCommitRecord asks the participant for proof that a branch was committed once, which
// forbids to roll it back. A missing answer forbids it as well, until the next sweep.
func CheckCommitRecord(ctx context.Context, p participant.Participant, b participant.Branch) (err error) {
	inspector, ok := p.(participant.Inspector)
	if !ok {
		return nil
	}
	defer RecoverPanic(&err)
	answer, err := inspector.Inspect(ctx, b)
	switch {
	case err != nil:
		return fmt.Errorf("ask for proof of its end before rolling it back: %w", err)
	case answer.Outcome == participant.Committed:
		return &CommitRecordError{redact.Text(answer.Detail)}
	}
	return nil
}
