package innodb

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

// Tx is a row of INNODB_TRX.
type Tx struct {
	ID, State, Started string
	Age                time.Duration
	Conn               uint64 // 0: prepared, and its connection has ended
}

// maxTransactions is how many certainly fit into the 16 MB of InnoDB's copy.
const maxTransactions = 30_000

// Transactions reads the present content of INNODB_TRX, without its own transaction. InnoDB
// answers from a copy that it refreshes at most every tenth of a second, and not at all while
// other connections read it; a copy is new if it contains the very query that reads it.
// Coordinators, and participants that share a server, could keep the copy from being refreshed
// for ever, so they read it one at a time.
func Transactions(ctx context.Context, db *sql.DB) (list []Tx, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err == nil {
			_, err = conn.ExecContext(ctx, "ROLLBACK") // the transaction only reads
		}
		if err == nil {
			_, err = conn.ExecContext(ctx, "DO RELEASE_LOCK("+ReadLock+")")
		}
		if err != nil { // a connection that may still hold the lock must not return to the pool
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		_ = conn.Close()
	}()
	if err := lockReads(ctx, conn); err != nil {
		return nil, err
	}
	// Only a transaction that has begun in InnoDB is listed.
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
			return nil, fmt.Errorf("read information_schema.INNODB_TRX, whose content is old (does another client read it constantly?): %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// ReadLock is the user-level lock that a reader of INNODB_TRX holds.
const ReadLock = "'txmgr reads INNODB_TRX'"

// readLockTimeout bounds the wait for the lock: two waits fit into the ten seconds of a call.
const readLockTimeout = 3 * time.Second

// lockReads waits until no other txmgr connection reads INNODB_TRX, for up to
// readLockTimeout: the lock may be held by a node that has lost its network, or by any
// other client of the server. Reading without the lock is only slower, since an old copy is
// recognized anyway.
func lockReads(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, fmt.Sprintf("DO GET_LOCK(%s, %d)", ReadLock, int(readLockTimeout/time.Second)))
	return err
}

func readTransactions(ctx context.Context, conn *sql.Conn) (list []Tx, isNew bool, err error) {
	mark := rand.Text()
	rows, err := conn.QueryContext(ctx, "SELECT /* "+mark+` */ trx_id, trx_state, trx_started, TIMESTAMPDIFF(SECOND, trx_started, NOW()), trx_mysql_thread_id,
		trx_mysql_thread_id = CONNECTION_ID(), COALESCE(trx_query, '')
		FROM information_schema.INNODB_TRX`)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var x Tx
		var ours bool
		var query string
		var age int64
		if err := rows.Scan(&x.ID, &x.State, &x.Started, &age, &x.Conn, &ours, &query); err != nil {
			return nil, false, err
		}
		x.Age = time.Duration(age) * time.Second
		if ours {
			isNew = isNew || strings.Contains(query, mark)
			continue
		}
		list = append(list, x)
	}
	return list, isNew, rows.Err()
}
