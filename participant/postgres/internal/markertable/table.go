package markertable

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqlstate"
	"github.com/txmgr/txmgr/txn"
)

// Default is the name of the marker table if none is configured.
const Default = "public.txmgr_branch"

// The kinds of marker rows.
const (
	None    = 0 // no row is visible
	Commit  = 1 // written by the branch, in its own transaction
	Barrier = 2 // written by the coordinator: the branch is rolled back, and cannot write its row any more
)

// Table is the name of a marker table with its schema, so that the search_path does not matter.
// The zero value means that there is none.
type Table string

// maxName is the longest name of PostgreSQL.
const maxName = 63

// Parse checks a name: schema.table, or a table in the schema public, of lower-case letters, digits
// and underscores. The name off means that there is no marker table.
func Parse(name string) (Table, error) {
	switch name {
	case "":
		return Default, nil
	case "off":
		return "", nil
	}
	schema, table, qualified := strings.Cut(name, ".")
	if !qualified {
		schema, table = "public", name
	}
	for _, part := range []string{schema, table} {
		if part == "" || len(part) > maxName || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			return "", fmt.Errorf("%w: marker table %q: want off, or table or schema.table of lower-case letters, digits and underscores, each of at most %d", txn.ErrInvalid, excerpt.Of(name), maxName)
		}
	}
	return Table(schema + "." + table), nil
}

// Quoted is the name as it is written in a statement.
func (t Table) Quoted() string {
	schema, table, _ := strings.Cut(string(t), ".")
	return `"` + schema + `"."` + table + `"`
}

// Create is the statement that creates the table.
func (t Table) Create() string {
	return "CREATE TABLE IF NOT EXISTS " + t.Quoted() + ` (xid text COLLATE "C" PRIMARY KEY, kind smallint NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp())`
}

// GrantApplication is the statement that gives an application's user what it needs.
func (t Table) GrantApplication(user string) string {
	return "GRANT INSERT ON " + t.Quoted() + " TO " + user
}

// GrantCoordinator is the statement that gives the coordinator's user what it needs.
func (t Table) GrantCoordinator(user string) string {
	return "GRANT SELECT, INSERT, UPDATE, DELETE ON " + t.Quoted() + " TO " + user
}

// ID identifies a table by its OIDs. No other table of the server, also after a failover, has
// both; a table that is dropped and created again has another.
type ID struct{ Database, Relation uint32 }

// String returns the text form, for example 16384.16390.
func (i ID) String() string { return fmt.Sprintf("%d.%d", i.Database, i.Relation) }

// ParseID parses exactly what String returns.
func ParseID(text string) (i ID, err error) {
	database, relation, _ := strings.Cut(text, ".")
	d, errD := strconv.ParseUint(database, 10, 32)
	r, errR := strconv.ParseUint(relation, 10, 32)
	if i = (ID{uint32(d), uint32(r)}); errD != nil || errR != nil || i.String() != text || d == 0 || r == 0 {
		return ID{}, fmt.Errorf("%q identifies no table", excerpt.Of(text))
	}
	return i, nil
}

// querier is a pool or a connection.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Found is a marker table that exists.
type Found struct {
	ID        ID
	MayInsert bool // what an application's user needs
	MayAll    bool // what the coordinator's user needs
}

// ErrMissing means that the table does not exist.
var ErrMissing = errors.New("there is no marker table")

// Find looks the table up.
func (t Table) Find(ctx context.Context, on querier) (f Found, err error) {
	schema, table, _ := strings.Cut(string(t), ".")
	var valid bool
	err = on.QueryRow(ctx, `
		SELECT d.oid, c.oid,
			c.relkind = 'r' AND c.relpersistence = 'p' AND 3 = (
				SELECT count(*) FROM pg_attribute a LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
				WHERE a.attrelid = c.oid AND NOT a.attisdropped AND (
					a.attname = 'xid' AND a.atttypid = 'text'::regtype AND i.indkey::text = a.attnum::text
					OR a.attname = 'kind' AND a.atttypid = 'int2'::regtype OR a.attname = 'at' AND a.atttypid = 'timestamptz'::regtype)),
			has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'INSERT'),
			has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'INSERT')
				AND has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_database d ON d.datname = current_database()
		WHERE n.nspname = '`+schema+`' AND c.relname = '`+table+`'`, pgx.QueryExecModeExec).
		Scan(&f.ID.Database, &f.ID.Relation, &valid, &f.MayInsert, &f.MayAll)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Found{}, ErrMissing
	case err != nil:
		return Found{}, err
	case !valid:
		return Found{}, fmt.Errorf("the table %s was not created by txmgr: configure another name (commit_marker), or drop it, and it is created again", t)
	}
	return f, nil
}

// Ensure creates the table if it does not exist. It must not be called in a transaction.
func (t Table) Ensure(ctx context.Context, on querier) (f Found, err error) {
	f, err = t.Find(ctx, on)
	if !errors.Is(err, ErrMissing) {
		return f, err
	}
	_, errCreate := on.Exec(ctx, t.Create())
	if f, err = t.Find(ctx, on); err == nil { // another may have created it at the same time
		_, err = on.Exec(ctx, "COMMENT ON TABLE "+t.Quoted()+" IS 'how branches of global transactions ended; kept by txmgr'")
		if sqlstate.Of(err) == sqlstate.NotAllowed {
			err = nil // it is the other's
		}
		return f, err
	}
	return Found{}, errors.Join(err, errCreate)
}

// Excluded returns those of the users that may not write their rows, quoted.
func (t Table) Excluded(ctx context.Context, pool *pgxpool.Pool, users []string) (excluded []string, err error) {
	rows, err := pool.Query(ctx, `
		SELECT quote_ident(u) FROM unnest($1::text[]) u
		WHERE NOT (has_schema_privilege(u, $2, 'USAGE') AND has_table_privilege(u, $3, 'INSERT')) ORDER BY 1`, users, strings.SplitN(string(t), ".", 2)[0], t.Quoted())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
