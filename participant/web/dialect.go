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

// rebind writes the parameters as the dialect has them.
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

// insert waits for whoever has inserted the same row and not committed. In MariaDB
// an update that changes nothing takes the lock that is needed afterwards; INSERT
// IGNORE would take a shared one, of which two make a deadlock.
func (d Dialect) insert(table string) string {
	if d == MariaDB {
		return "INSERT INTO " + table + " (xid, state, detail, changed) VALUES (?, '', ?, ?) ON DUPLICATE KEY UPDATE xid = xid"
	}
	return d.rebind("INSERT INTO " + table + " (xid, state, detail, changed) VALUES (?, '', ?, ?) ON CONFLICT (xid) DO NOTHING")
}

// mark tells one transaction from another, or from none. In MariaDB the token in the
// detail has to be looked at, too: it tells another one that was begun after a rollback.
func (d Dialect) mark() string {
	if d == MariaDB {
		return "@@in_transaction"
	}
	return "txid_current()::text"
}

// find gives with the row the mark of the transaction, which update and ours ask for.
func (d Dialect) find(table string) string {
	return d.rebind("SELECT state, detail, " + d.mark() + " FROM " + table + " WHERE xid = ? FOR UPDATE")
}

// update writes nothing when the transaction has been ended behind the back of
// database/sql: by a statement of the callback, or by MariaDB itself, as after a
// deadlock, and before CREATE TABLE.
func (d Dialect) update(table string) string {
	return d.rebind("UPDATE " + table + " SET state = ?, detail = ?, changed = ? WHERE xid = ? AND detail = ? AND " + d.mark() + " = ?")
}

// ours asks whether update would write, and whether the server rolls a transaction back
// that has waited too long for a lock.
func (d Dialect) ours(table string) string {
	timeoutEnds := "false"
	if d == MariaDB {
		timeoutEnds = "@@innodb_rollback_on_timeout"
	}
	return d.rebind("SELECT EXISTS (SELECT 1 FROM " + table + " WHERE xid = ? AND detail = ? AND " + d.mark() + " = ?), " + timeoutEnds)
}

// writeToken leaves a token in the row.
func (d Dialect) writeToken(table string) string {
	return d.rebind("UPDATE " + table + " SET detail = ? WHERE xid = ?")
}

// list leaves out rows without a state: those are of transactions that are under
// way, or that a callback has committed.
func (d Dialect) list(table string) string {
	cast := "?"
	if d == PostgreSQL {
		cast = "?::text" // of a parameter that is compared with a parameter
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
