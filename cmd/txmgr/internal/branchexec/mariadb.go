package branchexec

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"log"
	"net"
	"slices"
	"strconv"

	"github.com/go-sql-driver/mysql"

	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// OpenMariaDB returns the application's pool for a registered database. It does not connect yet.
// Its errors never contain a password.
func OpenMariaDB(p admin.Participant, env func(string) string) (*sql.DB, error) {
	dsn, err := lookUpDSN(p, env)
	if err != nil {
		return nil, err
	}
	c, err := mysql.ParseDSN(dsn)
	if err == nil && c.Net != "unix" {
		err = checkPort(c.Addr)
	}
	var connector driver.Connector
	if err == nil {
		c.Logger = log.New(io.Discard, "", 0) // an error is returned, or logged, never both
		connector, err = mysql.NewConnector(c)
	}
	if err != nil || c.DBName == "" {
		return nil, fmt.Errorf("%w: mariadb %s: its address is malformed, or names no database (it is not shown because it may hold a password); want one like user:password@tcp(host:3306)/database", txn.ErrInvalid, p.Name)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(maxConns)
	return db, nil
}

// checkPort refuses an invalid port, so that a misplaced password is not resolved as a port name,
// which the errors of package net would show.
func checkPort(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	return err
}

// NewMariaDB returns the application's side of a registered database over its pool.
func NewMariaDB(p admin.Participant, pool *sql.DB) *mariadb.DB {
	db := mariadb.New(p.Name, pool)
	db.MarkerTable = p.Settings["commit_marker"]
	return db
}

type mariadbExecutor struct {
	db   *mariadb.DB
	pool *sql.DB
}

func openMariaDBExecutor(p admin.Participant, env func(string) string) (Executor, error) {
	pool, err := OpenMariaDB(p, env)
	if err != nil {
		return nil, err
	}
	return &mariadbExecutor{db: NewMariaDB(p, pool), pool: pool}, nil
}

// Run implements [Executor]. It asks for the number of changed rows afterwards: queries with and
// without result rows run in the same way.
func (s *mariadbExecutor) Run(ctx context.Context, tx *txn.Tx, statement string) (Result, error) {
	r, err := s.read(ctx, tx, statement)
	if err != nil {
		return Result{}, err
	}
	if r.Affected = int64(len(r.Rows)); len(r.Columns) > 0 {
		return r, nil
	}
	// ROW_COUNT is -1 after a statement that neither changes nor reads rows.
	err = s.db.QueryRow(ctx, tx, "SELECT GREATEST(ROW_COUNT(), 0)").Scan(&r.Affected)
	return r, err
}

func (s *mariadbExecutor) read(ctx context.Context, tx *txn.Tx, statement string) (Result, error) {
	rows, err := s.db.Query(ctx, tx, statement)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	columns, err := rows.Columns()
	if err != nil {
		return Result{}, err
	}
	r := Result{Columns: slices.Concat([]string{}, columns), Rows: [][]string{}}
	cells := make([]sql.NullString, len(columns))
	into := make([]any, len(columns))
	for i := range cells {
		into[i] = &cells[i]
	}
	for rows.Next() {
		if len(r.Rows) == maxRows {
			return Result{}, fmt.Errorf("%w: more than %d rows; add a LIMIT", txn.ErrInvalid, maxRows)
		}
		if err := rows.Scan(into...); err != nil {
			return Result{}, err
		}
		row := make([]string, len(cells))
		for i, c := range cells {
			row[i] = "NULL"
			if c.Valid {
				row[i] = c.String
			}
		}
		r.Rows = append(r.Rows, row)
	}
	return r, rows.Err()
}

// Close implements [Executor].
func (s *mariadbExecutor) Close() error { return s.pool.Close() }
