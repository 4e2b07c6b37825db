package mariadb

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/txmgr/txmgr/txn"
)

// DefaultMarkerTable is the name of the marker table if none is configured.
const DefaultMarkerTable = "txmgr_branch"

// The kinds of marker rows.
const (
	markerNone    = 0 // no row is visible
	markerCommit  = 1 // written by the branch, in its own transaction
	markerBarrier = 2 // written by the coordinator: the branch is rolled back, and cannot begin any more
)

// markerTable is the name of a marker table. The zero value means that there is none.
type markerTable string

// newMarkerTable checks a name: letters, digits and underscores, at most 64 as MariaDB allows.
// The name off means that there is no marker table.
func newMarkerTable(name string) (markerTable, error) {
	switch {
	case name == "":
		return DefaultMarkerTable, nil
	case name == "off":
		return "", nil
	case len(name) > 64 || strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789_") != "":
		return "", fmt.Errorf("%w: marker table %q: want off, or 1 to 64 letters, digits and underscores", txn.ErrInvalid, clip(name))
	}
	return markerTable(name), nil
}

func (t markerTable) quoted() string { return "`" + string(t) + "`" }

// create is the statement that creates the table. The column origin, which is always set by its
// default, shows in every row which table it was written to.
func (t markerTable) create(origin string) string {
	return "CREATE TABLE IF NOT EXISTS " + t.quoted() + ` (
  xid VARBINARY(128) NOT NULL PRIMARY KEY COMMENT 'branch of a global transaction',
  kind TINYINT UNSIGNED NOT NULL COMMENT '1: its work is committed; 2: it is rolled back, and must not begin',
  origin CHAR(16) CHARACTER SET ascii NOT NULL DEFAULT '` + origin + `' COMMENT 'this table',
  at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)
) ENGINE=InnoDB COMMENT='how branches ended; kept by txmgr'`
}

// insert writes a branch's own row, and returns the connection and the table it was written in.
func (t markerTable) insert(xid string) string {
	return fmt.Sprintf("INSERT INTO %s (xid, kind) VALUES (%s, %d) RETURNING CONNECTION_ID(), origin", t.quoted(), bytesLiteral(xid), markerCommit)
}

// originQuery returns the table's origin, and NULL if the table does not exist.
func (t markerTable) originQuery() string {
	return "(SELECT TRIM(BOTH '''' FROM COLUMN_DEFAULT) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '" +
		string(t) + "' AND COLUMN_NAME = 'origin')"
}

// startQuery returns the second in which the server started. Both times are of the beginning of
// the statement: setting the clock does not change the result.
const startQuery = "(SELECT CAST(UNIX_TIMESTAMP() AS SIGNED) - CAST(VARIABLE_VALUE AS SIGNED) FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'UPTIME')"

// querier is a pool or a connection.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// ensure creates the table if it does not exist, and returns its origin. It must not be called in
// a transaction.
func (t markerTable) ensure(ctx context.Context, on querier) (origin string, err error) {
	origin, err = t.origin(ctx, on)
	if !errors.Is(err, errNoMarkerTable) {
		return origin, err
	}
	create := t.create(newOrigin())
	if _, err = on.ExecContext(ctx, create); err == nil {
		return t.origin(ctx, on)
	}
	if n := numberOf(err); n == codeTableDenied || n == codeDatabaseDenied {
		return "", fmt.Errorf("the marker table %s does not exist, or this user may not use it; a user with the privilege has to run: %s; %s: %w", t, create, t.grant(user(ctx, on)), err)
	}
	return "", fmt.Errorf("make the table %s: %w", t, err)
}

// grant is the statement that gives a user the privileges on the table.
func (t markerTable) grant(user string) string {
	return "GRANT SELECT, INSERT, UPDATE, DELETE ON " + t.quoted() + " TO " + user
}

// user is the connection's user, quoted for GRANT.
func user(ctx context.Context, on querier) string {
	var who string
	_ = on.QueryRowContext(ctx, "SELECT CURRENT_USER()").Scan(&who) // the remedy is clear without it
	return quoteUser(who)
}

// errNoMarkerTable means that the table does not exist, or that the user may not see it.
var errNoMarkerTable = errors.New("there is no marker table")

// origin returns the random text that identifies the table.
func (t markerTable) origin(ctx context.Context, on querier) (string, error) {
	var engine, origin sql.NullString
	err := on.QueryRowContext(ctx, "SELECT ENGINE, "+t.originQuery()+" FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '"+string(t)+"'").Scan(&engine, &origin)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", errNoMarkerTable
	case err != nil:
		return "", err
	case engine.String != "InnoDB":
		return "", fmt.Errorf("the table %s is of engine %s, and must be of InnoDB; drop it, it is made anew", t, engine.String)
	case !validOrigin(origin.String):
		return "", fmt.Errorf("the table %s is not one that txmgr made; give another name as proof", t)
	}
	return origin.String, nil
}

// usable checks that the user has the needed privileges on the table, without changing a row.
func (t markerTable) usable(ctx context.Context, on querier) error {
	for _, statement := range []string{
		"INSERT INTO " + t.quoted() + " (xid, kind) SELECT xid, kind FROM " + t.quoted() + " WHERE FALSE",
		"UPDATE " + t.quoted() + " SET at = at WHERE FALSE",
		"DELETE FROM " + t.quoted() + " WHERE FALSE",
	} {
		if _, err := on.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("use the marker table; a user with the privilege has to run: %s: %w", t.grant(user(ctx, on)), err)
		}
	}
	return nil
}

func newOrigin() string {
	var b [originLen / 2]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
