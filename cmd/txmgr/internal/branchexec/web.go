package branchexec

import (
	"context"
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/participant/web"
	"github.com/txmgr/txmgr/txn"
)

type webExecutor struct {
	name    string
	service *web.Service
}

// Run implements [Executor]. The statement is the payload, which the coordinator sends to the
// service in every phase.
func (s *webExecutor) Run(ctx context.Context, tx *txn.Tx, statement string) (Result, error) {
	err := s.service.Enlist(ctx, tx, []byte(statement))
	if errors.Is(err, txn.ErrConflict) && !errors.Is(err, txn.ErrNotActive) {
		return Result{}, fmt.Errorf("%w: web %s takes one payload per transaction: combine the payloads into one", txn.ErrInvalid, s.name)
	}
	return Result{Columns: []string{}, Rows: [][]string{}, Deferred: true}, err
}

// Close implements [Executor]. Nothing is held between calls.
func (*webExecutor) Close() error { return nil }
