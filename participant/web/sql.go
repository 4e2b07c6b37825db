package web

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// SQLStore keeps the barrier's rows in a table of a database. It implements
// [Store]. Callbacks get the *[sql.Tx] in which their branch's row is locked.
type SQLStore struct {
	db      *sql.DB
	dialect Dialect
	table   string

	mu    sync.Mutex // held by prepareTable; guards ready
	ready bool       // the table exists
}

// DefaultTable is the name of the table of a [SQLStore].
const DefaultTable = "txmgr_barrier"

// SQL returns the store in a table of a database. The table's name may have a schema before it;
// empty means [DefaultTable]. The table is created at its first use, if it does not exist; if the
// user lacks the privilege, create it before, see [SQLStore.Schema]. The caller keeps the
// ownership of db.
//
// In MariaDB all tables that the callbacks use have to be InnoDB tables.
func SQL(db *sql.DB, d Dialect, table string) *SQLStore {
	if table == "" {
		table = DefaultTable
	}
	return &SQLStore{db: db, dialect: d, table: table}
}

var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// Schema returns the statements that create the table and its index.
func (s *SQLStore) Schema() []string { return s.dialect.schema(s.table) }

// Do implements [Store]. If step has ended the transaction by a statement of its own, Do records
// that in the row, and runs step again with that state, unless step failed.
func (s *SQLStore) Do(ctx context.Context, xid string, step func(ctx context.Context, tx *sql.Tx, state, detail string) (string, string, error)) (err error) {
	if err := s.prepareTable(ctx); err != nil {
		return err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("barrier: begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // also after a panic; without effect after a commit
	r, err := s.lock(ctx, tx, xid)
	if err != nil {
		return fmt.Errorf("barrier: lock the row of %s: %w", xid, err)
	}
	if r.committedWithToken() {
		if err := r.end(ctx, tx, stateEndedByApplication, r.committedDetail()); err != nil {
			return err
		}
		return s.Do(ctx, xid, step)
	}
	newState, newDetail, err := step(ctx, tx, r.state, r.detail)
	switch {
	case err != nil:
		return s.afterFailure(ctx, tx, r, err)
	case newState == r.state:
		return nil
	}
	err = r.end(ctx, tx, newState, newDetail)
	if !errors.Is(err, errTxReplaced) && !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	_ = tx.Rollback() // of another transaction that was begun in its place
	if byHand, errLook := s.recordEndedByApplication(ctx, r, errors.Is(err, errTxReplaced)); !byHand || errLook != nil {
		return errors.Join(err, errLook)
	}
	return s.Do(ctx, xid, step)
}

// List implements [Store].
func (s *SQLStore) List(ctx context.Context, state, prefix, after string, limit int, visit func(xid, state string, since time.Time) error) (err error) {
	if err := s.prepareTable(ctx); err != nil {
		return err
	}
	rows, err := s.db.QueryContext(ctx, s.dialect.list(s.table), state, state, after, prefix, prefix+"~", limit)
	if err != nil {
		return fmt.Errorf("barrier: list: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var xid, state string
		var changed int64
		if err := rows.Scan(&xid, &state, &changed); err != nil {
			return fmt.Errorf("barrier: list: %w", err)
		}
		if err := visit(xid, state, time.UnixMilli(changed)); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Prune implements [Store].
func (s *SQLStore) Prune(ctx context.Context, keep string, before time.Time) (pruned int, err error) {
	if err := s.prepareTable(ctx); err != nil {
		return 0, err
	}
	for {
		result, err := s.db.ExecContext(ctx, s.dialect.prune(s.table), keep, before.UnixMilli(), pruneBatch)
		if err != nil {
			return pruned, fmt.Errorf("barrier: prune: %w", err)
		}
		n, err := result.RowsAffected()
		pruned += int(n)
		if err != nil || n < pruneBatch {
			return pruned, err
		}
	}
}

// pruneBatch bounds how many rows one statement locks.
const pruneBatch = 1000

// prepareTable ensures that the table exists. If several services start at once and create the
// same table, PostgreSQL lets one of them fail; so the table is looked for again afterwards.
func (s *SQLStore) prepareTable(ctx context.Context) error {
	if !tableName.MatchString(s.table) {
		return fmt.Errorf("%w: barrier: table %q: want a name of letters, digits and _, with a schema and a dot before it or without", txn.ErrInvalid, clean(s.table, 64))
	}
	if s.dialect != PostgreSQL && s.dialect != MariaDB {
		return fmt.Errorf("%w: barrier: dialect %d: want PostgreSQL or MariaDB", txn.ErrInvalid, s.dialect)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready {
		return nil
	}
	there := func() error {
		rows, err := s.db.QueryContext(ctx, s.dialect.probe(s.table))
		if err != nil {
			return err
		}
		return errors.Join(rows.Err(), rows.Close())
	}
	if there() == nil {
		s.ready = true
		return nil
	}
	var failed error
	for _, statement := range s.Schema() {
		_, err := s.db.ExecContext(ctx, statement)
		failed = errors.Join(failed, err)
	}
	if err := there(); err != nil {
		return fmt.Errorf("barrier: make table %s: %w", s.table, errors.Join(failed, err))
	}
	s.ready = true
	return nil
}
