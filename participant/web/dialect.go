package web

import "strings"

// Dialect is the SQL of a [SQLStore]. The zero Dialect is none.
type Dialect uint8

const (
	// PostgreSQL also fits what speaks its protocol and has its locks.
	PostgreSQL Dialect = iota + 1
	// MariaDB has to be used with parameters, ?, as its Go driver has them.
	MariaDB
)

// Names are compared by their bytes: an order that both sides of the list have,
// and that no locale changes.
func (d Dialect) schema(table string) []string {
	index := table[strings.LastIndexByte(table, '.')+1:] + "_by_age"
	if d == MariaDB {
		return []string{"CREATE TABLE IF NOT EXISTS " + table + ` (
	xid VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,
	state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
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

// with writes the parameters as the dialect has them.
func (d Dialect) with(sql string) string {
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

// insert waits for whoever has inserted the same row and not committed. In MariaDB
// an update that changes nothing takes the lock that is needed afterwards; INSERT
// IGNORE would take a shared one, of which two make a deadlock.
func (d Dialect) insert(table string) string {
	if d == MariaDB {
		return "INSERT INTO " + table + " (xid, state, detail, changed) VALUES (?, '', '', ?) ON DUPLICATE KEY UPDATE xid = xid"
	}
	return d.with("INSERT INTO " + table + " (xid, state, detail, changed) VALUES (?, '', '', ?) ON CONFLICT (xid) DO NOTHING")
}

// find gives with the row a mark of the transaction, which update asks for.
func (d Dialect) find(table string) string {
	mark := "txid_current()::text"
	if d == MariaDB {
		mark = "@@in_transaction"
	}
	return d.with("SELECT state, detail, " + mark + " FROM " + table + " WHERE xid = ? FOR UPDATE")
}

// update writes nothing when the transaction has been ended behind the back of
// database/sql: by a statement of the callback, or by MariaDB itself, as after a
// deadlock, and before CREATE TABLE.
func (d Dialect) update(table string) string {
	mark := "txid_current()::text"
	if d == MariaDB {
		mark = "@@in_transaction"
	}
	return d.with("UPDATE " + table + " SET state = ?, detail = ?, changed = ? WHERE xid = ? AND " + mark + " = ?")
}

// list leaves out rows without a state: those are of transactions that are under
// way, or that a callback has committed.
func (d Dialect) list(table string) string {
	cast := "?"
	if d == PostgreSQL {
		cast = "?::text" // of a parameter that is compared with a parameter
	}
	return d.with("SELECT xid, state, changed FROM " + table +
		" WHERE (" + cast + " = '' OR state = ?) AND state <> '' AND xid > ? AND xid >= ? AND xid < ? ORDER BY xid LIMIT ?")
}

func (d Dialect) prune(table string) string {
	if d == MariaDB {
		return "DELETE FROM " + table + " WHERE state <> ? AND changed < ? LIMIT ?"
	}
	return d.with("DELETE FROM " + table + " WHERE xid IN (SELECT xid FROM " + table + " WHERE state <> ? AND changed < ? LIMIT ? FOR UPDATE SKIP LOCKED)")
}
