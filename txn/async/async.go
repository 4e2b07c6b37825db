// Package async declares calls of [txn.Manager] for callers that spend no goroutine on each of
// them, as a server that answers the calls of many clients.
package async

import (
	"context"

	"github.com/txmgr/txmgr/txn"
)

// Calls are calls of a [txn.Manager]. Each calls answer exactly once, with what the method of the
// Manager would have returned: before it returns, or later on a goroutine that other calls share,
// so answer must not block. That a context has ended is noticed within 10 ms.
type Calls interface {
	Begin(ctx context.Context, o txn.Options, answer func(txn.BeginResult, error))
	Commit(ctx context.Context, id txn.ID, c txn.CommitRequest, answer func(txn.Outcome, error))
	ReportCompletion(ctx context.Context, id txn.ID, reports []txn.CompletionReport, answer func(error))
}
