package mariadb

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/participant/mariadb/internal/connect"
	"github.com/txmgr/txmgr/participant/mariadb/internal/errno"
	"github.com/txmgr/txmgr/participant/mariadb/internal/xa"
)

// lockOwner is the transaction that holds a branch's marker row, and with it all locks of the
// branch.
type lockOwner struct {
	trx            string
	conn           uint64
	state          string
	wanted         string // InnoDB's id of the lock that it waits for; empty: it waits for none
	locks, waiters []string
	waitsFor       string // description of that lock and its holder
}

// isOrphaned reports whether the transaction belongs to no connection, and the server is not
// rolling it back: a branch that the server rolls back after a crash has no connection either.
func (h lockOwner) isOrphaned() bool { return h.conn == 0 && h.state != "ROLLING BACK" }

// probeMark identifies the probes: statements that wait on purpose.
const probeMark = "/* txmgr traces a branch */"

// traceBatch is how many branches are traced at a time: each probe takes a connection of the
// pool, and two more are needed to watch them.
const traceBatch = connect.MaxConns - 2

// lockOwners determines the transactions that hold the marker rows of branches. InnoDB does not
// report which transaction has which name; but it reports which one waits for which, so a probe
// waits for each branch's row, for a moment.
func (r *resourceManager) lockOwners(ctx context.Context, xids []string) (map[string]lockOwner, error) {
	found := map[string]lockOwner{}
	for ; r.markers != "" && len(xids) > 0; xids = xids[min(traceBatch, len(xids)):] {
		if err := r.findLockOwners(ctx, xids[:min(traceBatch, len(xids))], found); err != nil {
			return nil, err
		}
	}
	for xid, h := range found {
		if err := r.describe(ctx, &h); err != nil {
			return nil, err
		}
		found[xid] = h
	}
	return found, nil
}

func (r *resourceManager) findLockOwners(ctx context.Context, xids []string, found map[string]lockOwner) error {
	var wg sync.WaitGroup
	probes := make(chan error, len(xids))
	for _, xid := range xids {
		wg.Go(func() { probes <- r.probe(ctx, xid) })
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	err := r.watch(ctx, over, len(xids), found)
	<-over
	close(probes)
	for e := range probes {
		err = errors.Join(err, e)
	}
	return err
}

// probe waits for a branch's row: long enough for two reads by watch if the row is locked, and
// otherwise not at all.
func (r *resourceManager) probe(ctx context.Context, xid string) error {
	rows, err := r.db.QueryContext(ctx, "SET STATEMENT max_statement_time = 0.4, innodb_lock_wait_timeout = 1 FOR SELECT "+probeMark+" kind FROM "+r.markers.Quoted()+
		" WHERE xid = "+xa.BytesLiteral(xid)+" FOR UPDATE")
	if err == nil {
		for rows.Next() {
		}
		err = errors.Join(rows.Err(), rows.Close())
	}
	switch errno.Of(err) {
	case errno.LockTimeout, errno.StatementTime, errno.NoTable, errno.ReadOnly, errno.TableDenied:
		return nil // the probe has waited; or it may not, and the owner remains unknown
	}
	return err
}

// watch reads which transactions the probes wait for, until the probes end or all are known.
func (r *resourceManager) watch(ctx context.Context, over <-chan struct{}, want int, found map[string]lockOwner) error {
	const copyAge = 110 * time.Millisecond // see [innodb.Transactions]
	tick := time.NewTicker(copyAge)
	defer tick.Stop()
	for before := len(found); ; {
		select {
		case <-over:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if err := r.readLockOwners(ctx, found); err != nil || len(found) == before+want {
			return err
		}
	}
}

func (r *resourceManager) readLockOwners(ctx context.Context, found map[string]lockOwner) error {
	rows, err := r.db.QueryContext(ctx, `
		SELECT q.trx_query, h.trx_id, h.trx_mysql_thread_id, h.trx_state, h.trx_tables_locked, h.trx_rows_locked, h.trx_rows_modified,
			COALESCE(h.trx_requested_lock_id, ''), COALESCE(l.lock_table = CONCAT('`+"`"+`', DATABASE(), '`+"`.`"+string(r.markers)+"`"+`'), FALSE)
		FROM information_schema.INNODB_LOCK_WAITS w
		JOIN information_schema.INNODB_TRX q ON q.trx_id = w.requesting_trx_id
		JOIN information_schema.INNODB_TRX h ON h.trx_id = w.blocking_trx_id
		LEFT JOIN information_schema.INNODB_LOCKS l ON l.lock_id = h.trx_requested_lock_id
		WHERE q.trx_query LIKE '%`+probeMark+`%'`)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err reports the error
	for rows.Next() {
		var query sql.NullString
		var h lockOwner
		var tables, locked, modified int64
		var queues bool // it waits for a marker row, as the probes do
		if err := rows.Scan(&query, &h.trx, &h.conn, &h.state, &tables, &locked, &modified, &h.wanted, &queues); err != nil {
			return err
		}
		if xid, ok := probed(query.String); ok && !queues {
			h.locks = []string{fmt.Sprintf("transaction %s: %d rows in %d tables, %d rows changed", h.trx, locked, tables, modified)}
			found[xid] = h
		}
	}
	return rows.Err()
}

// probed parses the branch's name from a probe's statement.
func probed(query string) (xid string, ok bool) {
	_, rest, _ := strings.Cut(query, " WHERE xid = X'")
	digits, _, ok := strings.Cut(rest, "'")
	b, err := hex.DecodeString(digits)
	return string(b), ok && err == nil
}

// describe adds the locks of a transaction that others wait for, and the waiters. InnoDB does not
// list other locks.
func (r *resourceManager) describe(ctx context.Context, h *lockOwner) error {
	if _, err := strconv.ParseUint(h.trx, 10, 64); err != nil {
		return fmt.Errorf("number of a transaction %q: %w", excerpt.Of(h.trx), err)
	}
	if err := r.describeWait(ctx, h); err != nil {
		return err
	}
	contended, err := r.texts(ctx, `
		SELECT DISTINCT CONCAT(lock_mode, ' on ', lock_table, COALESCE(CONCAT(' ', lock_index), ''))
		FROM information_schema.INNODB_LOCKS
		WHERE lock_trx_id = `+h.trx+` AND lock_id <> '`+h.wanted+`' AND lock_table <> CONCAT('`+"`', DATABASE(), '`.`"+string(r.markers)+"`"+`') ORDER BY 1`)
	if err != nil {
		return err
	}
	h.locks = limitLines(append(h.locks, contended...))
	h.waiters, err = r.texts(ctx, `
		SELECT CONCAT(`+whoQuery+`, ' waits for ', l.lock_mode, ' on ', l.lock_table, COALESCE(CONCAT(' ', l.lock_index), ''))
		FROM information_schema.INNODB_LOCK_WAITS w
		JOIN information_schema.INNODB_LOCKS l ON l.lock_id = w.requested_lock_id
		JOIN information_schema.INNODB_TRX q ON q.trx_id = w.requesting_trx_id
		JOIN information_schema.PROCESSLIST p ON p.ID = q.trx_mysql_thread_id
		WHERE w.blocking_trx_id = `+h.trx+` AND COALESCE(q.trx_query, '') NOT LIKE '%`+probeMark+`%' ORDER BY p.ID`)
	h.waiters = limitLines(h.waiters)
	return err
}

// describeWait adds the lock that a transaction waits for, and its holder.
func (r *resourceManager) describeWait(ctx context.Context, h *lockOwner) error {
	if strings.Trim(h.wanted, "0123456789:") != "" {
		return fmt.Errorf("number of a lock %q", excerpt.Of(h.wanted))
	}
	if h.wanted == "" {
		return nil
	}
	found, err := r.texts(ctx, `
		SELECT CONCAT(l.lock_mode, ' on ', l.lock_table, COALESCE(CONCAT(' ', l.lock_index), ''), ', which ',
			CASE WHEN b.trx_mysql_thread_id = 0 THEN 'a prepared transaction' ELSE COALESCE(`+whoQuery+`, CONCAT('connection ', b.trx_mysql_thread_id)) END, ' holds')
		FROM information_schema.INNODB_LOCK_WAITS w
		JOIN information_schema.INNODB_LOCKS l ON l.lock_id = w.requested_lock_id
		JOIN information_schema.INNODB_TRX b ON b.trx_id = w.blocking_trx_id
		LEFT JOIN information_schema.PROCESSLIST p ON p.ID = b.trx_mysql_thread_id
		WHERE w.requested_lock_id = '`+h.wanted+`' AND w.requesting_trx_id = `+h.trx+` ORDER BY b.trx_started, b.trx_id`)
	h.waitsFor = strings.Join(limitLines(found), "; ")
	return err
}

// texts runs a query whose rows are single texts.
func (r *resourceManager) texts(ctx context.Context, query string) (list []string, err error) {
	rows, err := r.db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err reports the error
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return nil, err
		}
		list = append(list, line)
	}
	return list, rows.Err()
}
