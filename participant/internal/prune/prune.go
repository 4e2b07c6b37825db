// Package prune removes marker rows that the log does not need any more. It is what drivers with a
// marker table share of [participant.Pruner]; the statements are theirs.
package prune

import (
	"context"
	"fmt"

	"github.com/txmgr/txmgr/txn"
)

// pageSize is how many rows are listed at once. [participant.Pruner] allows no more names in one
// question.
const pageSize = 1000

// Table is a marker table. Its rows have the names of branches.
type Table interface {
	// List returns the names of rows that are above after and below before, in their order, at most
	// limit. A table that does not exist has none.
	List(ctx context.Context, after, before string, limit int) ([]string, error)
	// Remove removes rows, skips those that are locked, and returns how many it removed, also with
	// an error.
	Remove(ctx context.Context, names []string) (removed int, err error)
}

// Over tells of each of the names whether the log has finished with the branch.
type Over func(ctx context.Context, names []string) ([]bool, error)

// Rows implements [participant.Pruner] for the rows whose names begin with the prefix of a cluster.
// It goes through all of them, page by page, until limit rows are removed.
func Rows(ctx context.Context, t Table, prefix string, limit int, over Over) (removed int, err error) {
	last := len(prefix) - 1
	before := prefix[:last] + string(prefix[last]+1)
	for after := prefix; removed < limit; {
		page, err := t.List(ctx, after, before, pageSize)
		if err != nil || len(page) == 0 {
			return removed, err
		}
		after = page[len(page)-1]
		names, err := finished(ctx, branches(page), over)
		if err != nil {
			return removed, fmt.Errorf("ask which branches have finished: %w", err)
		}
		if len(names) == 0 {
			continue
		}
		n, err := t.Remove(ctx, names[:min(len(names), limit-removed)])
		if removed += n; err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// branches returns the names that are of branches: the log does not know others, so their rows
// stay. A whole page may be of such names.
func branches(page []string) (names []string) {
	for _, name := range page {
		if _, _, _, ours := txn.ParseXID(name); ours {
			names = append(names, name)
		}
	}
	return names
}

// finished returns the names for which over answers true.
func finished(ctx context.Context, names []string, over Over) (done []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	answers, err := over(ctx, names)
	switch {
	case err != nil:
		return nil, err
	case len(answers) != len(names):
		return nil, fmt.Errorf("%d answers to %d questions", len(answers), len(names))
	}
	for i, isOver := range answers {
		if isOver {
			done = append(done, names[i])
		}
	}
	return done, nil
}
