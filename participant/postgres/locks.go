package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqltext"
)

var _ participant.LockInspector = (*resourceManager)(nil)

// maxPrepared bounds the list of prepared transactions.
const maxPrepared = 10_000

// InspectLocks implements [participant.LockInspector]: the prepared transactions of all
// databases of the server, oldest first.
func (r *resourceManager) InspectLocks(ctx context.Context) (list []participant.PreparedDetails, err error) {
	ctx, fail := r.calls.Begin(ctx, "inspect locks")
	defer fail(&err)
	all, err := r.preparedAs(ctx, "")
	if err != nil {
		return nil, err
	}
	l, err := r.locks(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		list = append(list, participant.PreparedDetails{Prepared: p.Prepared, Locks: l.heldBy(p.holder), Waiters: l.waitersFor(p.holder)})
	}
	return list, nil
}

// prepared is a prepared transaction and its identifier as a holder of locks.
type prepared struct {
	participant.Prepared
	holder         string
	inThisDatabase bool // in the registered database
}

// preparedAge is how long a transaction has been prepared, by the server's clock.
const preparedAge = "clock_timestamp() - prepared"

// preparedAs returns the prepared transaction of a name, or all of the server. As a holder of
// locks it has the virtual transaction id of the backend that prepared it, and another one after
// a restart; the id is taken from the lock that each transaction has on its own number.
func (r *resourceManager) preparedAs(ctx context.Context, name string) ([]prepared, error) {
	rows, err := r.pool.Query(ctx, `
		WITH l AS MATERIALIZED (
			SELECT transactionid, min(virtualtransaction) AS holder FROM pg_locks
			WHERE granted AND pid IS NULL AND locktype = 'transactionid' GROUP BY transactionid
		)
		SELECT p.gid, p.prepared, `+preparedAge+`, 'user ' || p.owner || ', database ' || p.database, coalesce(l.holder, ''), p.database = current_database()
		FROM pg_prepared_xacts p LEFT JOIN l ON l.transactionid = p.transaction
		WHERE $1 IN ('', p.gid) ORDER BY p.prepared, p.gid LIMIT $2`, name, maxPrepared)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p prepared, err error) {
		err = row.Scan(&p.XID, &p.Since, &p.Age, &p.Owner, &p.holder, &p.inThisDatabase)
		return p, err
	})
}

// locks are those of the whole server at one moment. A holder is a process id, or the virtual
// transaction id of a prepared transaction.
type locks struct {
	held    map[string][]string
	waiting []waiter
}

// waiter is a process that waits for a lock.
type waiter struct {
	pid      string
	waitsFor []string // holders that it waits for
	detail   string   // its description, for the operator
}

func (r *resourceManager) locks(ctx context.Context) (l locks, err error) {
	if l.held, err = r.heldLocks(ctx); err == nil {
		l.waiting, err = r.waitingFor(ctx)
	}
	return l, err
}

// heldLocks describes the locks for the operator, by holder. A row lock is stored in the row,
// and not listed.
func (r *resourceManager) heldLocks(ctx context.Context) (map[string][]string, error) {
	rows, err := r.pool.Query(ctx, `
		SELECT coalesce(l.pid::text, l.virtualtransaction), l.locktype, l.mode,
			CASE WHEN l.relation IS NULL THEN ''
				WHEN l.database IN (0, d.oid) THEN l.relation::regclass::text
				ELSE l.relation::text || ' of database ' || coalesce((SELECT datname FROM pg_database WHERE oid = l.database), l.database::text) END,
			count(*)
		FROM pg_locks l
			JOIN pg_database d ON d.datname = current_database()
			LEFT JOIN pg_class c ON c.oid = l.relation AND l.database IN (0, d.oid)
		WHERE l.granted AND l.locktype NOT IN ('virtualxid', 'transactionid')
			AND coalesce(c.relkind, 'r') NOT IN ('i', 'I', 't')
		GROUP BY 1, 2, 3, 4 ORDER BY 4, 2, 3`)
	if err != nil {
		return nil, err
	}
	held := map[string][]string{}
	var holder, kind, mode, relation string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&holder, &kind, &mode, &relation, &n}, func() error {
		line := kind
		switch {
		case relation != "" && kind == "relation":
			line = "table " + relation
		case relation != "":
			line = kind + " of table " + relation
		}
		line += ": " + modeWords(mode)
		if n > 1 {
			line += fmt.Sprintf(" (%d)", n)
		}
		held[holder] = append(held[holder], line)
		return nil
	})
	return held, err
}

// modeWords converts "RowExclusiveLock" to "row exclusive".
func modeWords(mode string) string {
	if mode == "SIReadLock" {
		return "serializable read"
	}
	var words strings.Builder
	for i, c := range strings.TrimSuffix(mode, "Lock") {
		if i > 0 && 'A' <= c && c <= 'Z' {
			words.WriteByte(' ')
		}
		words.WriteString(strings.ToLower(string(c)))
	}
	return words.String()
}

// waitingFor lists the processes that wait, and the holders that block them. PostgreSQL reports 0
// for every prepared transaction that blocks; the lock table shows which one it is.
func (r *resourceManager) waitingFor(ctx context.Context) ([]waiter, error) {
	rows, err := r.pool.Query(ctx, `
		WITH l AS MATERIALIZED (SELECT * FROM pg_locks)
		SELECT w.pid::text, array_remove(pg_blocking_pids(w.pid), 0)::text[] || CASE WHEN 0 = ANY (pg_blocking_pids(w.pid)) THEN array(
				SELECT DISTINCT h.virtualtransaction FROM l h WHERE h.granted AND h.pid IS NULL AND h.locktype = w.locktype
					AND (h.database, h.relation, h.page, h.tuple, h.virtualxid, h.transactionid, h.classid, h.objid, h.objsubid)
						IS NOT DISTINCT FROM (w.database, w.relation, w.page, w.tuple, w.virtualxid, w.transactionid, w.classid, w.objid, w.objsubid))
				ELSE '{}' END,
			coalesce(a.usename, ''), coalesce(a.application_name, ''), a.query_start, coalesce(a.query, '')
		FROM l w LEFT JOIN pg_stat_activity a ON a.pid = w.pid
		WHERE NOT w.granted AND w.pid IS NOT NULL
		ORDER BY a.query_start, w.pid`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (w waiter, err error) {
		var user, application, query string
		var since *time.Time
		if err = row.Scan(&w.pid, &w.waitsFor, &user, &application, &since, &query); err != nil {
			return w, err
		}
		w.detail = fmt.Sprintf("process %s, user %s", w.pid, user)
		if application != "" {
			w.detail += ", application " + excerpt.Of(application)
		}
		if since != nil {
			w.detail += ", since " + formatTime(*since)
		}
		w.detail += ": " + sqltext.Summarize(query)
		return w, nil
	})
}

// heldBy describes the locks of a holder.
func (l locks) heldBy(holder string) []string { return limitLines(l.held[holder]) }

// waitersFor describes the processes that wait for a holder, directly or through another waiter.
func (l locks) waitersFor(holder string) (lines []string) {
	in := map[string]bool{holder: true}
	for grown := true; grown; {
		grown = false
		for _, w := range l.waiting {
			if !in[w.pid] && slices.ContainsFunc(w.waitsFor, func(h string) bool { return in[h] }) {
				in[w.pid], grown = true, true
			}
		}
	}
	for _, w := range l.waiting {
		if in[w.pid] && w.pid != holder {
			lines = append(lines, w.detail)
		}
	}
	return limitLines(lines)
}

// maxLines bounds a list for the operator, its last line included.
const maxLines = 20

func limitLines(lines []string) []string {
	if len(lines) <= maxLines {
		return lines
	}
	return append(slices.Clone(lines[:maxLines-1]), fmt.Sprintf("and %d more", len(lines)-maxLines+1))
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
