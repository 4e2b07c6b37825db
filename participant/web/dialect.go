package web

import "strings"

// Dialect is the SQL dialect of a [SQLStore]. The zero Dialect is invalid.
type Dialect uint8

const (
	// PostgreSQL also fits servers that are compatible with its protocol and its locks.
	PostgreSQL Dialect = iota + 1
	// MariaDB needs a driver whose parameters are written as ?.
	MariaDB
)

// schema returns the statements that create the table and its index. Names are compared by their
// bytes: the order of both sides of the list, which no locale changes.
func (d Dialect) schema(table string) []string {
	index := table[strings.LastIndexByte(table, '.')+1:] + "_by_age"
	if d == MariaDB {
		return []string{"CREATE TABLE IF NOT EXISTS " + table + ` (
	xid VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,
	state VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	detail VARCHAR(600) CHARACTER SET utf8mb4 NOT NULL,
	changed BIGINT NOT NULL,
	INDEX ` + index + ` (state, changed)
) ENGINE=InnoDB`}
	}
	return []string{
		"CREATE TABLE IF NOT EXISTS " + table + ` (
	xid text COLLATE "C" PRIMARY KEY,
	state text NOT NULL,
	detail text NOT NULL,
	changed bigint NOT NULL
)`,
		"CREATE INDEX IF NOT EXISTS " + index + " ON " + table + " (state, changed)",
	}
}

// rebind converts the parameters of a statement to the form of the dialect.
func (d Dialect) rebind(sql string) string {
	if d == MariaDB {
		return sql
	}
	var b strings.Builder
	n := byte('0')
	for _, c := range []byte(sql) {
		if c != '?' {
			b.WriteByte(c)
			continue
		}
		n++
		b.WriteString("$" + string(n))
	}
	return b.String()
}

func (d Dialect) probe(table string) string { return "SELECT xid FROM " + table + " WHERE 1 = 0" }

// insert waits for a transaction that has inserted the same row and not committed. In MariaDB an
// update that changes nothing takes the lock that is needed afterwards; INSERT IGNORE would take
// a shared one, and two shared locks make a deadlock.
func (d Dialect) insert(table string) string {
	if d == MariaDB {
		return "INSERT INTO " + table + " (xid, state, detail, changed) VALUES (?, '', ?, ?) ON DUPLICATE KEY UPDATE xid = xid"
	}
	return d.rebind("INSERT INTO " + table + " (xid, state, detail, changed) VALUES (?, '', ?, ?) ON CONFLICT (xid) DO NOTHING")
}

// mark identifies a transaction. In MariaDB it only shows whether there is one: the token in the
// detail distinguishes it from another one that was begun after a rollback.
func (d Dialect) mark() string {
	if d == MariaDB {
		return "@@in_transaction"
	}
	return "txid_current()::text"
}

// find returns the row and the mark of the transaction, which update and ours compare.
func (d Dialect) find(table string) string {
	return d.rebind("SELECT state, detail, " + d.mark() + " FROM " + table + " WHERE xid = ? FOR UPDATE")
}

// update changes no row if the transaction was ended without database/sql: by a statement of the
// callback, or by MariaDB itself, as after a deadlock, and before CREATE TABLE.
func (d Dialect) update(table string) string {
	return d.rebind("UPDATE " + table + " SET state = ?, detail = ?, changed = ? WHERE xid = ? AND detail = ? AND " + d.mark() + " = ?")
}

// ours queries whether update would change the row, and whether the server rolls back a transaction
// after a lock timeout.
func (d Dialect) ours(table string) string {
	timeoutEnds := "false"
	if d == MariaDB {
		timeoutEnds = "@@innodb_rollback_on_timeout"
	}
	return d.rebind("SELECT EXISTS (SELECT 1 FROM " + table + " WHERE xid = ? AND detail = ? AND " + d.mark() + " = ?), " + timeoutEnds)
}

// writeToken writes a token into the row.
func (d Dialect) writeToken(table string) string {
	return d.rebind("UPDATE " + table + " SET detail = ? WHERE xid = ?")
}

// list omits rows without a state: they are of transactions that are in progress, or that a
// callback has committed.
func (d Dialect) list(table string) string {
	cast := "?"
	if d == PostgreSQL {
		cast = "?::text" // it is compared with no column, from which its type would be inferred
	}
	return d.rebind("SELECT xid, state, changed FROM " + table +
		" WHERE (" + cast + " = '' OR state = ?) AND state <> '' AND xid > ? AND xid >= ? AND xid < ? ORDER BY xid LIMIT ?")
}

func (d Dialect) prune(table string) string {
	if d == MariaDB {
		return "DELETE FROM " + table + " WHERE state <> ? AND changed < ? LIMIT ?"
	}
	return d.rebind("DELETE FROM " + table + " WHERE xid IN (SELECT xid FROM " + table + " WHERE state <> ? AND changed < ? LIMIT ? FOR UPDATE SKIP LOCKED)")
}
