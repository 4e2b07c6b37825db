package mariadb

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"
)

// innodbTx is a row of INNODB_TRX.
type innodbTx struct {
	id, state, started string
	age                time.Duration
	conn               uint64 // 0: prepared, and its connection has gone
}

// maxTransactions is how many fit surely into the 16 MB of InnoDB's copy.
const maxTransactions = 30_000

// transactions reads INNODB_TRX as it is now, without our own transaction. InnoDB
// answers from a copy that it makes at most every tenth of a second, and not at
// all while others read it; a copy is new when it has the very query that reads
// it. So that coordinators, and participants that share a server, do not keep each
// other from news for ever, they take turns.
func (r *resourceManager) transactions(ctx context.Context) (list []innodbTx, err error) {
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err == nil {
			_, err = conn.ExecContext(ctx, "ROLLBACK") // it has only read
		}
		if err == nil {
			_, err = conn.ExecContext(ctx, "DO RELEASE_LOCK("+innoDBReadLock+")")
		}
		if err != nil { // whose turn it is, is not left to the pool
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		_ = conn.Close()
	}()
	if err := lockInnoDBReads(ctx, conn); err != nil {
		return nil, err
	}
	// Only what has begun in InnoDB is listed there.
	if _, err := conn.ExecContext(ctx, "START TRANSACTION WITH CONSISTENT SNAPSHOT"); err != nil {
		return nil, err
	}
	const copyAge = 110 * time.Millisecond
	tick := time.NewTicker(copyAge)
	defer tick.Stop()
	for {
		list, isNew, err := readTransactions(ctx, conn)
		switch {
		case err != nil:
			return nil, err
		case len(list) > maxTransactions:
			return nil, fmt.Errorf("the server has %d transactions, of which InnoDB may not list all", len(list))
		case isNew:
			return list, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("read information_schema.INNODB_TRX, whose content is old (somebody else reads it all the time?): %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// innoDBReadLock names the server's lock that whoever reads INNODB_TRX holds.
const innoDBReadLock = "'txmgr reads INNODB_TRX'"

// innoDBReadLockTimeout bounds the wait for a turn: two of them fit into the patience of a call.
const innoDBReadLockTimeout = 3 * time.Second

// lockInnoDBReads waits until nobody else of ours reads INNODB_TRX, or turnTime is over: the
// lock may be that of a node that has lost its network, or of anybody who can log
// in. To go without a turn is only slower, since what is old is told from what is
// new all the same.
func lockInnoDBReads(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, fmt.Sprintf("DO GET_LOCK(%s, %d)", innoDBReadLock, int(innoDBReadLockTimeout/time.Second)))
	return err
}

func readTransactions(ctx context.Context, conn *sql.Conn) (list []innodbTx, isNew bool, err error) {
	mark := rand.Text()
	rows, err := conn.QueryContext(ctx, "SELECT /* "+mark+` */ trx_id, trx_state, trx_started, TIMESTAMPDIFF(SECOND, trx_started, NOW()), trx_mysql_thread_id,
		trx_mysql_thread_id = CONNECTION_ID(), COALESCE(trx_query, '')
		FROM information_schema.INNODB_TRX`)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var x innodbTx
		var ours bool
		var query string
		var age int64
		if err := rows.Scan(&x.id, &x.state, &x.started, &age, &x.conn, &ours, &query); err != nil {
			return nil, false, err
		}
		x.age = time.Duration(age) * time.Second
		if ours {
			isNew = isNew || strings.Contains(query, mark)
			continue
		}
		list = append(list, x)
	}
	return list, isNew, rows.Err()
}
