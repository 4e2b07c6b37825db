package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/participant/postgres/internal/markertable"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqlstate"
	"github.com/txmgr/txmgr/txn"
)

// DefaultMarkerTable is the name of the marker table if none is configured.
const DefaultMarkerTable = markertable.Default

// absenceTime is how long a default table that was not found is not looked for again.
const absenceTime = 5 * time.Second

// markers returns the marker table in which a branch on the connection writes its row; the name is
// empty if it writes none. The connection is not in a transaction.
func (db *DB) markers(ctx context.Context, conn *pgx.Conn) (table markertable.Table, id markertable.ID, err error) {
	table, err = markertable.Parse(db.MarkerTable)
	if table == "" {
		return "", id, err
	}
	db.mu.Lock()
	found, absent := db.marker, time.Since(db.absence) < absenceTime
	db.mu.Unlock()
	switch {
	case found.MayInsert:
		return table, found.ID, nil
	case absent:
		return "", id, nil
	}
	found, err = table.Find(ctx, conn)
	optional := db.MarkerTable == ""
	switch {
	case err != nil && !errors.Is(err, markertable.ErrMissing):
		return "", id, err
	case optional && !found.MayInsert:
		found, table = markertable.Found{}, ""
	case err != nil:
		return "", id, fmt.Errorf("the marker table %s does not exist: the coordinator creates it when it first checks the participant; or run: %s", table, table.Create())
	case !found.MayInsert:
		return "", id, mayNotInsert(table, nil)
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.marker = found; table == "" {
		db.absence = time.Now()
	}
	return table, found.ID, nil
}

// forgetMarkers clears the cache, because it proved wrong: the table is looked for again.
func (db *DB) forgetMarkers() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.marker, db.absence = markertable.Found{}, time.Time{}
}

func mayNotInsert(table markertable.Table, why error) error {
	err := fmt.Errorf("this user may not write to the marker table; a user with the privilege has to run: %s", table.GrantApplication("the application's user"))
	if why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return err
}

// errTableReplaced means that the marker row went to another table than the one on record.
var errTableReplaced = errors.New("the marker table was created again; retry")

// markerError explains why the marker row could not be written. The transaction has failed.
func (db *DB) markerError(table markertable.Table, err error) error {
	if table == "" {
		return err
	}
	switch sqlstate.Of(err) {
	case sqlstate.Duplicate:
		return fmt.Errorf("%w: the coordinator has rolled the branch back already: %w", txn.ErrNotActive, err)
	case sqlstate.ReadOnly:
		return fmt.Errorf("the transaction is read-only: set TxOptions.AccessMode to pgx.ReadOnly, or MarkerTable to off: %w", err)
	case sqlstate.NotAllowed:
		db.forgetMarkers()
		return mayNotInsert(table, err)
	}
	db.forgetMarkers()
	return err
}
