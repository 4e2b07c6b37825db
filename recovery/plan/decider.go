package plan

import (
	"time"

	"github.com/txmgr/txmgr/txn"
)

// ReadsDecider reports whether the appointed branch of a transaction is to be asked whether it has committed,
// because another branch has been prepared for that long: longer than a client gets to end its branches. Its client
// commits the appointed branch as soon as the others have voted, and then these. If it died in between, the
// transaction is decided, and the log has not been told.
func ReadsDecider(k BranchStatus, prepared, grace time.Duration) bool {
	other := k.Branch.ID != 0 && k.Branch.ID != k.Decider.ID
	return k.State == txn.Active && k.Decider.ID != 0 && other && prepared > grace
}
