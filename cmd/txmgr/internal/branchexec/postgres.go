package branchexec

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// maxConns is enough for a demo; a single transaction needs one.
const maxConns = 16

// OpenPostgres returns the application's pool for a registered database. It does not connect yet.
// Its errors never contain a password.
func OpenPostgres(ctx context.Context, p admin.Participant, env func(string) string) (*pgxpool.Pool, error) {
	dsn, err := lookUpDSN(p, env)
	if err != nil {
		return nil, err
	}
	c, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("%w: postgres %s: its address is malformed (it is not shown because it may hold a password); try it with psql", txn.ErrInvalid, p.Name)
	}
	c.MaxConns = max(c.MaxConns, maxConns)
	return pgxpool.NewWithConfig(ctx, c)
}

type postgresExecutor struct {
	db   *postgres.DB
	pool *pgxpool.Pool
}

func openPostgresExecutor(ctx context.Context, p admin.Participant, env func(string) string) (Executor, error) {
	pool, err := OpenPostgres(ctx, p, env)
	if err != nil {
		return nil, err
	}
	return &postgresExecutor{db: NewPostgres(p, pool), pool: pool}, nil
}

// NewPostgres returns the application's side of a registered database.
func NewPostgres(p admin.Participant, pool *pgxpool.Pool) *postgres.DB {
	db := postgres.New(p.Name, pool)
	db.MarkerTable = p.Settings["commit_marker"]
	return db
}

// Run implements [Executor]. The extended protocol takes one statement at a time,
// with results as text.
func (s *postgresExecutor) Run(ctx context.Context, tx *txn.Tx, statement string) (Result, error) {
	rows, err := s.db.Query(ctx, tx, statement, pgx.QueryExecModeExec, pgx.QueryResultFormats{pgx.TextFormatCode})
	if err != nil {
		return Result{}, err
	}
	defer rows.Close()
	r := Result{Columns: []string{}, Rows: [][]string{}}
	for rows.Next() {
		if len(r.Rows) == maxRows {
			return Result{}, fmt.Errorf("%w: more than %d rows; add a LIMIT", txn.ErrInvalid, maxRows)
		}
		var row []string
		for _, v := range rows.RawValues() {
			cell := "NULL"
			if v != nil {
				cell = string(v)
			}
			row = append(row, cell)
		}
		r.Rows = append(r.Rows, row)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return Result{}, err
	}
	for _, f := range rows.FieldDescriptions() {
		r.Columns = append(r.Columns, f.Name)
	}
	r.Affected = rows.CommandTag().RowsAffected()
	return r, nil
}

// Close implements [Executor].
func (s *postgresExecutor) Close() error {
	s.pool.Close()
	return nil
}
