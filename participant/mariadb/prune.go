package mariadb

import (
	"context"
	"fmt"
)

// Prune implements [participant.Pruner]. It removes marker rows.
func (r *resourceManager) Prune(ctx context.Context, limit int, over func(context.Context, []string) ([]bool, error)) (removed int, err error) {
	ctx, fail := r.call(ctx, "prune")
	defer fail(&err)
	if r.markers == "" {
		return 0, nil
	}
	for after := r.prefix; removed < limit; {
		names, err := r.markers.List(ctx, r.db, r.prefix, after)
		if err != nil || len(names) == 0 {
			return removed, err
		}
		after = names[len(names)-1]
		answers, err := over(ctx, names)
		if err != nil {
			return removed, fmt.Errorf("ask which branches have finished: %w", err)
		}
		if len(answers) != len(names) {
			return removed, fmt.Errorf("ask which branches have finished: %d answers to %d questions", len(answers), len(names))
		}
		var gone []string
		for i, isOver := range answers {
			if isOver && len(gone) < limit-removed {
				gone = append(gone, names[i])
			}
		}
		n, err := r.markers.Remove(ctx, r.db, gone)
		if removed += n; err != nil {
			return removed, err
		}
	}
	return removed, nil
}
