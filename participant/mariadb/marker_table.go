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

// DefaultMarkerTable is the name of the table of proof when none is chosen.
const DefaultMarkerTable = "txmgr_branch"

// The kinds of row in the table of proof.
const (
	markerNone    = 0 // none is visible
	markerCommit  = 1 // written by the branch, in its own transaction
	markerBarrier = 2 // written by the coordinator: the branch is rolled back, and can not begin any more
)

// markerTable is a table of proof. Its zero value is none.
type markerTable string

// newMarkerTable checks a name: letters, digits and underscores, at most 64 as MariaDB
// allows; and off, which is none.
func newMarkerTable(name string) (markerTable, error) {
	switch {
	case name == "":
		return DefaultMarkerTable, nil
	case name == "off":
		return "", nil
	case len(name) > 64 || strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789_") != "":
		return "", fmt.Errorf("%w: table of proof %q: want off, or 1 to 64 letters, digits and underscores", txn.ErrInvalid, clip(name))
	}
	return markerTable(name), nil
}

func (t markerTable) quoted() string { return "`" + string(t) + "`" }

// create is the statement that makes the table. Every row shows by its origin,
// which is a default that nobody overrides, which table it was written to.
func (t markerTable) create(origin string) string {
	return "CREATE TABLE IF NOT EXISTS " + t.quoted() + ` (
  xid VARBINARY(128) NOT NULL PRIMARY KEY COMMENT 'branch of a global transaction',
  kind TINYINT UNSIGNED NOT NULL COMMENT '1: its work is committed; 2: it is rolled back, and must not begin',
  origin CHAR(16) CHARACTER SET ascii NOT NULL DEFAULT '` + origin + `' COMMENT 'this table',
  at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)
) ENGINE=InnoDB COMMENT='how branches ended; kept by txmgr'`
}

// insert writes a branch's own row, and says where it has been written.
func (t markerTable) insert(xid string) string {
	return fmt.Sprintf("INSERT INTO %s (xid, kind) VALUES (%s, %d) RETURNING CONNECTION_ID(), origin", t.quoted(), bytesLiteral(xid), markerCommit)
}

// originQuery gives what the table calls itself, and NULL when it is not there.
func (t markerTable) originQuery() string {
	return "(SELECT TRIM(BOTH '''' FROM COLUMN_DEFAULT) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '" +
		string(t) + "' AND COLUMN_NAME = 'origin')"
}

// startQuery gives the second in which the server started. Both times are of the
// beginning of the statement: a clock that is set makes no difference.
const startQuery = "(SELECT CAST(UNIX_TIMESTAMP() AS SIGNED) - CAST(VARIABLE_VALUE AS SIGNED) FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'UPTIME')"

// querier is a pool or a session.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// ensure makes the table when it is not there, and gives what it calls itself. It
// must not be called in a transaction.
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
		return "", fmt.Errorf("the table of proof, %s, is not there, or this user may not use it; let somebody who may run: %s; %s: %w", t, create, t.grant(user(ctx, on)), err)
	}
	return "", fmt.Errorf("make the table %s: %w", t, err)
}

// grant is the statement that lets a user work with the table.
func (t markerTable) grant(user string) string {
	return "GRANT SELECT, INSERT, UPDATE, DELETE ON " + t.quoted() + " TO " + user
}

// user is who we are to the server, ready for GRANT.
func user(ctx context.Context, on querier) string {
	var who string
	_ = on.QueryRowContext(ctx, "SELECT CURRENT_USER()").Scan(&who) // the advice is understood without
	return quoteUser(who)
}

// errNoMarkerTable says that the table is not there, or not to be seen.
var errNoMarkerTable = errors.New("there is no table of proof")

// origin gives what the table calls itself.
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

// usable tries whether this user may do with the table what has to be done,
// without doing it.
func (t markerTable) usable(ctx context.Context, on querier) error {
	for _, statement := range []string{
		"INSERT INTO " + t.quoted() + " (xid, kind) SELECT xid, kind FROM " + t.quoted() + " WHERE FALSE",
		"UPDATE " + t.quoted() + " SET at = at WHERE FALSE",
		"DELETE FROM " + t.quoted() + " WHERE FALSE",
	} {
		if _, err := on.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("use the table of proof; let somebody who may run: %s: %w", t.grant(user(ctx, on)), err)
		}
	}
	return nil
}

func newOrigin() string {
	var b [originLen / 2]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
