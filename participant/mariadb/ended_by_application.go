package mariadb

import (
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/txn"
)

// endedByApplicationError is the error of a transaction that the application has ended.
func endedByApplicationError(by string, err error) error {
	return fmt.Errorf("%w: by %s; what it did, and each statement after that, may be committed: %w", txn.ErrEndedByApplication, by, err)
}

// readOnlyEndedError explains why a read-only transaction does not exist any more.
func (b *branch) readOnlyEndedError(err error) error {
	if b.serverRolledBack.Load() && !b.mayHaveEnded.Load() {
		return fmt.Errorf("%w: %w", errRolledBackByServer, err)
	}
	return endedByApplicationError("a COMMIT or ROLLBACK", err)
}

// unprovenError explains a failure after which the coordinator can only determine whether the
// branch's work is committed or not: that does not show what a statement that ended the branch
// has committed. It is called after the failure, when nothing more can be sent.
func (b *branch) unprovenError(err error) error {
	if b.mayHaveEnded.Load() && !errors.Is(err, txn.ErrEndedByApplication) && !errors.Is(err, errRolledBackByServer) {
		return fmt.Errorf("%w, or may have been: which transaction was open at the end is not known, and a statement was sent that may have ended it (a block, EXECUTE, CALL, several at once, or one that commits): %w", txn.ErrEndedByApplication, err)
	}
	return err
}
