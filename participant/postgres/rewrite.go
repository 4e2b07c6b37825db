package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/txn"
)

// rewritten applies the [pgx.QueryRewriter] among the options of a statement, so that the text
// that is checked is the text that is sent. As in pgx, options come first, and of several
// rewriters the last one counts. A rewriter of the application's own is given the connection.
func (g *managedTx) rewritten(ctx context.Context, sql string, args []any) (string, []any, error) {
	if err := g.check(); err != nil {
		return "", nil, err
	}
	var options []any
	var by pgx.QueryRewriter
	at := 0
options:
	for ; at < len(args); at++ {
		switch arg := args[at].(type) {
		case pgx.QueryResultFormats, pgx.QueryResultFormatsByOID, pgx.QueryExecMode:
			options = append(options, arg)
		case pgx.QueryRewriter:
			by = arg
		default:
			break options
		}
	}
	if by == nil {
		return sql, args, nil
	}
	var conn *pgx.Conn
	switch by.(type) {
	case pgx.NamedArgs, pgx.StrictNamedArgs: // they do not use the connection
	default:
		conn = g.Conn()
	}
	sql, rest, err := by.RewriteQuery(ctx, conn, sql, args[at:])
	if err != nil {
		return "", nil, fmt.Errorf("rewrite query failed: %w", err)
	}
	if len(rest) > 0 {
		if _, again := rest[0].(pgx.QueryRewriter); again {
			return "", nil, fmt.Errorf("%w: a QueryRewriter returned another one (%T) as its first argument, which would change the statement after it was checked: rewrite it before", txn.ErrManaged, rest[0])
		}
	}
	return sql, slices.Concat(options, rest), nil
}
