package markertable

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/participant/mariadb/internal/connect"
	"github.com/txmgr/txmgr/participant/mariadb/internal/errno"
	"github.com/txmgr/txmgr/participant/mariadb/internal/xa"
	"github.com/txmgr/txmgr/txn"
)

// Default is the name of the marker table if none is configured.
const Default = "txmgr_branch"

// The kinds of marker rows.
const (
	None    = 0 // no row is visible
	Commit  = 1 // written by the branch, in its own transaction
	Barrier = 2 // written by the coordinator: the branch is rolled back, and cannot begin any more
)

// Table is the name of a marker table, in the database that a connection uses. The zero value
// means that there is none.
type Table string

// Parse checks a name: letters, digits and underscores, at most 64 as MariaDB allows.
// The name off means that there is no marker table.
func Parse(name string) (Table, error) {
	switch {
	case name == "":
		return Default, nil
	case name == "off":
		return "", nil
	case len(name) > 64 || strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789_") != "":
		return "", fmt.Errorf("%w: marker table %q: want off, or 1 to 64 letters, digits and underscores", txn.ErrInvalid, excerpt.Of(name))
	}
	return Table(name), nil
}

// Quoted is the name as an identifier in a statement.
func (t Table) Quoted() string { return "`" + string(t) + "`" }

// Create is the statement that creates the table. The column origin, which is always set by its
// default, shows in every row which table it was written to.
func (t Table) Create(origin string) string {
	return "CREATE TABLE IF NOT EXISTS " + t.Quoted() + ` (
  xid VARBINARY(128) NOT NULL PRIMARY KEY COMMENT 'branch of a global transaction',
  kind TINYINT UNSIGNED NOT NULL COMMENT '1: its work is committed; 2: it is rolled back, and must not begin',
  origin CHAR(16) CHARACTER SET ascii NOT NULL DEFAULT '` + origin + `' COMMENT 'this table',
  at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)
) ENGINE=InnoDB COMMENT='how branches ended; kept by txmgr'`
}

// Insert writes a branch's own row if it runs in this connection, and the table has this origin.
// Otherwise it fails with [errno.Null]: a result to be compared would cost more.
func (t Table) Insert(xid string, conn uint64, origin string) string {
	return fmt.Sprintf("INSERT INTO %s (xid, kind) VALUES (%s, IF(CONNECTION_ID() = %d AND DEFAULT(origin) = '%s', %d, NULL))", t.Quoted(), xa.BytesLiteral(xid), conn, origin, Commit)
}

// OriginQuery returns the table's origin, and NULL if the table does not exist.
func (t Table) OriginQuery() string {
	return "(SELECT TRIM(BOTH '''' FROM COLUMN_DEFAULT) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '" +
		string(t) + "' AND COLUMN_NAME = 'origin')"
}

// querier is a pool or a connection.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Ensure creates the table if it does not exist, and returns its origin. It must not be called in
// a transaction.
func (t Table) Ensure(ctx context.Context, on querier) (origin string, err error) {
	origin, err = t.Origin(ctx, on)
	if !errors.Is(err, ErrMissing) {
		return origin, err
	}
	create := t.Create(NewOrigin())
	if _, err = on.ExecContext(ctx, create); err == nil {
		return t.Origin(ctx, on)
	}
	if n := errno.Of(err); n == errno.TableDenied || n == errno.DatabaseDenied {
		return "", fmt.Errorf("the marker table %s does not exist, or this user may not use it; a user with the privilege has to run: %s; %s: %w", t, create, t.Grant(connect.CurrentUser(ctx, on)), err)
	}
	return "", fmt.Errorf("create the table %s: %w", t, err)
}

// Grant is the statement that gives a user the privileges on the table.
func (t Table) Grant(user string) string {
	return "GRANT SELECT, INSERT, UPDATE, DELETE ON " + t.Quoted() + " TO " + user
}

// ErrMissing means that the table does not exist, or that the user may not see it.
var ErrMissing = errors.New("there is no marker table")

// Origin returns the random text that identifies the table.
func (t Table) Origin(ctx context.Context, on querier) (string, error) {
	var engine, origin sql.NullString
	err := on.QueryRowContext(ctx, "SELECT ENGINE, "+t.OriginQuery()+" FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '"+string(t)+"'").Scan(&engine, &origin)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", ErrMissing
	case err != nil:
		return "", err
	case engine.String != "InnoDB":
		return "", fmt.Errorf("the table %s has the engine %s, and must have InnoDB; drop it, and it is created again", t, engine.String)
	case !ValidOrigin(origin.String):
		return "", fmt.Errorf("the table %s was not created by txmgr; configure another name (commit_marker)", t)
	}
	return origin.String, nil
}

// Usable checks that the user has the needed privileges on the table, without changing a row.
func (t Table) Usable(ctx context.Context, on querier) error {
	for _, statement := range []string{
		"INSERT INTO " + t.Quoted() + " (xid, kind) SELECT xid, kind FROM " + t.Quoted() + " WHERE FALSE",
		"UPDATE " + t.Quoted() + " SET at = at WHERE FALSE",
		"DELETE FROM " + t.Quoted() + " WHERE FALSE",
	} {
		if _, err := on.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("use the marker table; a user with the privilege has to run: %s: %w", t.Grant(connect.CurrentUser(ctx, on)), err)
		}
	}
	return nil
}

// originLen is the length of a marker table's origin, which identifies the table.
const originLen = 16

// ValidOrigin reports whether a text may be the origin of a marker table.
func ValidOrigin(s string) bool {
	return len(s) == originLen && strings.Trim(s, "0123456789abcdef") == ""
}

// NewOrigin returns the origin of a table that is to be created.
func NewOrigin() string {
	var b [originLen / 2]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
