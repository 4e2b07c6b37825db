package application

import (
	"context"
	"strings"

	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/txn"
)

type ledgerSide struct{ l *ledger.Ledger }

// Run implements [Side].
func (s *ledgerSide) Run(ctx context.Context, tx *txn.Tx, statement string) (Result, error) {
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

// Close implements [Side]. A ledger holds nothing between calls.
func (*ledgerSide) Close() error { return nil }
