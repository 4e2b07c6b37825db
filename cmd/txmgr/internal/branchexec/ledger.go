package branchexec

import (
	"context"
	"strings"

	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/txn"
)

type ledgerExecutor struct{ l *ledger.Ledger }

// Run implements [Executor].
func (s *ledgerExecutor) Run(ctx context.Context, tx *txn.Tx, statement string) (Result, error) {
	text, err := s.l.Exec(ctx, tx, statement)
	if err != nil {
		return Result{}, err
	}
	r := Result{Columns: []string{}, Rows: [][]string{}}
	for line := range strings.Lines(text) {
		r.Columns = []string{"account", "balance"}
		r.Rows = append(r.Rows, strings.Fields(line))
	}
	for one := range strings.FieldsFuncSeq(statement, func(r rune) bool { return r == ';' || r == '\n' }) {
		if strings.TrimSpace(one) != "" {
			r.Affected++ // each statement names one account, or moves one amount
		}
	}
	return r, nil
}

// Close implements [Executor]. A ledger holds nothing between calls.
func (*ledgerExecutor) Close() error { return nil }
