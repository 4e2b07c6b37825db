package postgres

import (
	"context"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/internal/prune"
	"github.com/txmgr/txmgr/participant/postgres/internal/markertable"
)

var _ participant.Pruner = (*resourceManager)(nil)

// Prune implements [participant.Pruner]. It removes marker rows.
func (r *resourceManager) Prune(ctx context.Context, limit int, over func(context.Context, []string) ([]bool, error)) (removed int, err error) {
	ctx, fail := r.calls.Begin(ctx, "prune")
	defer fail(&err)
	if r.markers == "" {
		return 0, nil
	}
	return prune.Rows(ctx, markertable.Rows{Table: r.markers, Pool: r.pool}, r.prefix, limit, over)
}
