package postgres

import (
	"context"
	"fmt"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/postgres/internal/markertable"
)

var _ participant.Pruner = (*resourceManager)(nil)

// Prune implements [participant.Pruner]. It removes marker rows.
func (r *resourceManager) Prune(ctx context.Context, limit int, over func(context.Context, []string) ([]bool, error)) (removed int, err error) {
	ctx, fail := r.call(ctx, "prune")
	defer fail(&err)
	if r.markers == "" {
		return 0, nil
	}
	for after := r.prefix; removed < limit; {
		names, err := r.markers.List(ctx, r.pool, r.prefix, after)
		if err != nil || len(names) == 0 {
			return removed, err
		}
		after = names[len(names)-1]
		gone, err := ended(ctx, markertable.Known(names), over)
		if err != nil {
			return removed, fmt.Errorf("ask which branches have finished: %w", err)
		}
		n, err := r.markers.Remove(ctx, r.pool, gone[:min(len(gone), limit-removed)])
		if removed += n; err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// ended returns the names for which over answers true.
func ended(ctx context.Context, names []string, over func(context.Context, []string) ([]bool, error)) (gone []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	answers, err := over(ctx, names)
	if err != nil {
		return nil, err
	}
	if len(answers) != len(names) {
		return nil, fmt.Errorf("%d answers to %d questions", len(answers), len(names))
	}
	for i, isOver := range answers {
		if isOver {
			gone = append(gone, names[i])
		}
	}
	return gone, nil
}
