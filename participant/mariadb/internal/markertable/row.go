package markertable

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/mariadb/internal/errno"
	"github.com/txmgr/txmgr/participant/mariadb/internal/xa"
)

// Kind reads a branch's marker row.
func (t Table) Kind(ctx context.Context, db *sql.DB, xid string) (kind int, err error) {
	if t == "" {
		return None, nil
	}
	err = db.QueryRowContext(ctx, "SELECT kind FROM "+t.Quoted()+" WHERE xid = "+xa.BytesLiteral(xid)).Scan(&kind)
	if errno.Of(err) == errno.NoTable {
		_, err = t.Ensure(ctx, db)
		return None, err
	}
	if errors.Is(err, sql.ErrNoRows) {
		return None, nil
	}
	return kind, err
}

// CheckSame checks that the application writes its marker rows to the table that the
// coordinator reads. Otherwise a missing row proves nothing.
func (t Table) CheckSame(ctx context.Context, db *sql.DB, origin string) error {
	here, err := t.Origin(ctx, db)
	if err == nil && here != origin {
		err = fmt.Errorf("the application writes its marker rows to another table (%s; the one here is %s): register the database that it uses, with the same commit_marker; or the table was dropped since, and with it the proof of commits", origin, here)
	}
	return err
}

// Locked reports whether an open or prepared transaction holds the branch's row.
func (t Table) Locked(ctx context.Context, db *sql.DB, xid string) (bool, error) {
	rows, err := db.QueryContext(ctx, "SELECT kind FROM "+t.Quoted()+" WHERE xid = "+xa.BytesLiteral(xid)+" FOR UPDATE")
	if err == nil {
		for rows.Next() {
		}
		err = errors.Join(rows.Err(), rows.Close())
	}
	if errno.Of(err) == errno.LockTimeout {
		return true, nil
	}
	return false, err
}

// ConfirmDurable ensures that a marker row is on disk: it can be read a moment before it is. A
// later commit is on disk only after it.
func (t Table) ConfirmDurable(ctx context.Context, db *sql.DB, xid string) error {
	_, err := db.ExecContext(ctx, "UPDATE "+t.Quoted()+" SET at = NOW(6) WHERE xid = "+xa.BytesLiteral(xid))
	return err
}

// ErrBusy means that another worker works on the same branch.
var ErrBusy = errors.New("another worker is finishing it")

// WriteBarrier inserts the marker row that keeps a branch from beginning. held means that a
// transaction has the row locked, and that it is not a coordinator's: every call takes the same
// user-level lock first.
func (t Table) WriteBarrier(ctx context.Context, db *sql.DB, xid string) (written, held bool, err error) {
	lock := "'" + LockName(xid) + "'"
	_, err = db.ExecContext(ctx, strings.Join([]string{
		"BEGIN NOT ATOMIC",
		"DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN DO RELEASE_LOCK(" + lock + "); RESIGNAL; END;",
		"IF COALESCE(GET_LOCK(" + lock + ", 1), 0) = 0 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'busy'; END IF;",
		fmt.Sprintf("INSERT INTO %s (xid, kind) VALUES (%s, %d);", t.Quoted(), xa.BytesLiteral(xid), Barrier),
		"DO RELEASE_LOCK(" + lock + ");",
		"END",
	}, " "))
	switch errno.Of(err) {
	case errno.LockTimeout:
		return false, true, nil
	case errno.Duplicate:
		return false, false, nil
	case errno.Signal:
		return false, false, ErrBusy
	}
	return err == nil, false, err
}

// AddTimes adds the time since when branches are at work, and their database, for branches with
// a marker row in this database. It reads rows that are not committed.
func (t Table) AddTimes(ctx context.Context, db *sql.DB, list []participant.Prepared) error {
	const page = 500
	for ; t != "" && len(list) > 0; list = list[min(page, len(list)):] {
		at := map[string]int{}
		var names []string
		for i, p := range list[:min(page, len(list))] {
			at[p.XID] = i
			names = append(names, xa.BytesLiteral(p.XID))
		}
		err := t.readUncommitted(ctx, db, "xid IN ("+strings.Join(names, ", ")+")", func(p participant.Prepared) {
			if i, found := at[p.XID]; found {
				list[i] = p
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readUncommitted reads marker rows, committed or not.
func (t Table) readUncommitted(ctx context.Context, db *sql.DB, where string, each func(participant.Prepared)) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadUncommitted, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // the transaction only reads
	rows, err := tx.QueryContext(ctx, "SELECT xid, UNIX_TIMESTAMP(at) * 1000000 DIV 1, (UNIX_TIMESTAMP(NOW(6)) - UNIX_TIMESTAMP(at)) * 1000000 DIV 1, CONCAT('database ', DATABASE()) FROM "+t.Quoted()+" WHERE "+where)
	if errno.Of(err) == errno.NoTable {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err reports the error
	for rows.Next() {
		var p participant.Prepared
		var micros, age int64
		if err := rows.Scan(&p.XID, &micros, &age, &p.Owner); err != nil {
			return err
		}
		p.Since, p.Age = time.UnixMicro(micros).UTC(), time.Duration(max(age, 0))*time.Microsecond
		each(p)
	}
	return rows.Err()
}

// maxRows bounds how many rows are read to find branches that are not committed.
const maxRows = 100_000

// Uncommitted returns the branches whose marker row is not committed, among the first
// maxRows rows.
func (t Table) Uncommitted(ctx context.Context, db *sql.DB) (map[string]participant.Prepared, error) {
	open := map[string]participant.Prepared{}
	if t == "" {
		return open, nil
	}
	first := fmt.Sprintf("TRUE ORDER BY xid LIMIT %d", maxRows)
	err := t.readUncommitted(ctx, db, first, func(p participant.Prepared) { open[p.XID] = p })
	if err != nil || len(open) == 0 {
		return open, err
	}
	rows, err := db.QueryContext(ctx, "SELECT xid FROM "+t.Quoted()+" WHERE "+first)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err reports the error
	for rows.Next() {
		var xid string
		if err := rows.Scan(&xid); err != nil {
			return nil, err
		}
		delete(open, xid)
	}
	return open, rows.Err()
}

// LockName is the name of a branch's user-level lock, which MariaDB limits to 64 characters.
func LockName(xid string) string {
	sum := sha256.Sum256([]byte(xid))
	return "txmgr-" + hex.EncodeToString(sum[:20])
}
