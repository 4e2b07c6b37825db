package mariadb

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
)

// The reasons why a branch has not ended yet.
var (
	errStillOpen = errors.New("its session still holds its work")
	errOrphaned  = errors.New("the server holds its locks, but neither lists it as prepared nor has a connection for it: it is still rolling back after a crash; or a finish that came too early has lost the branch, then restart the server, which lists it again")
)

// marker reads a branch's marker row.
func (r *resourceManager) marker(ctx context.Context, xid string) (kind int, err error) {
	if r.markers == "" {
		return markerNone, nil
	}
	err = r.db.QueryRowContext(ctx, "SELECT kind FROM "+r.markers.quoted()+" WHERE xid = "+bytesLiteral(xid)).Scan(&kind)
	if numberOf(err) == codeNoTable {
		_, err = r.markers.ensure(ctx, r.db)
		return markerNone, err
	}
	if errors.Is(err, sql.ErrNoRows) {
		return markerNone, nil
	}
	return kind, err
}

// checkSameTable checks that the application writes its marker rows to the table that the
// coordinator reads. Otherwise a missing row proves nothing.
func (r *resourceManager) checkSameTable(ctx context.Context, s SessionRef) error {
	origin, err := r.markers.origin(ctx, r.db)
	if err == nil && origin != s.Table {
		err = fmt.Errorf("the application keeps its proof in another table (%s; the one here is %s): register the database that it uses, and the same proof; or the table was dropped since, and with it the proof of what is not prepared any more", s.Table, origin)
	}
	return err
}

// markerLocked reports whether an open or prepared transaction holds the branch's row.
func (r *resourceManager) markerLocked(ctx context.Context, xid string) (bool, error) {
	rows, err := r.db.QueryContext(ctx, "SELECT kind FROM "+r.markers.quoted()+" WHERE xid = "+bytesLiteral(xid)+" FOR UPDATE")
	if err == nil {
		for rows.Next() {
		}
		err = errors.Join(rows.Err(), rows.Close())
	}
	if numberOf(err) == codeLockTimeout {
		return true, nil
	}
	return false, err
}

// confirmDurable ensures that a marker row is on disk: it can be read a moment before it is. A
// later commit is on disk only after it.
func (r *resourceManager) confirmDurable(ctx context.Context, xid string) error {
	_, err := r.db.ExecContext(ctx, "UPDATE "+r.markers.quoted()+" SET at = NOW(6) WHERE xid = "+bytesLiteral(xid))
	return err
}

// errBusy means that another worker works on the same branch.
var errBusy = errors.New("another worker is finishing it")

// writeBarrier inserts the marker row that keeps a branch from beginning. held means that a
// transaction has the row locked, and that it is not a coordinator's: every call takes the same
// user-level lock first.
func (r *resourceManager) writeBarrier(ctx context.Context, xid string) (written, held bool, err error) {
	lock := "'" + lockName(xid) + "'"
	_, err = r.db.ExecContext(ctx, strings.Join([]string{
		"BEGIN NOT ATOMIC",
		"DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN DO RELEASE_LOCK(" + lock + "); RESIGNAL; END;",
		"IF COALESCE(GET_LOCK(" + lock + ", 1), 0) = 0 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'busy'; END IF;",
		fmt.Sprintf("INSERT INTO %s (xid, kind) VALUES (%s, %d);", r.markers.quoted(), bytesLiteral(xid), markerBarrier),
		"DO RELEASE_LOCK(" + lock + ");",
		"END",
	}, " "))
	switch numberOf(err) {
	case codeLockTimeout:
		return false, true, nil
	case codeDuplicate:
		return false, false, nil
	case codeSignal:
		return false, false, errBusy
	}
	return err == nil, false, err
}

// addTimes adds the time since when branches are at work, and their database, for branches with
// a marker row in this database. It reads rows that are not committed.
func (r *resourceManager) addTimes(ctx context.Context, list []participant.Prepared) error {
	const page = 500
	for ; r.markers != "" && len(list) > 0; list = list[min(page, len(list)):] {
		at := map[string]int{}
		var names []string
		for i, p := range list[:min(page, len(list))] {
			at[p.XID] = i
			names = append(names, bytesLiteral(p.XID))
		}
		err := r.readUncommitted(ctx, "xid IN ("+strings.Join(names, ", ")+")", func(p participant.Prepared) {
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
func (r *resourceManager) readUncommitted(ctx context.Context, where string, each func(participant.Prepared)) error {
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadUncommitted, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // the transaction only reads
	rows, err := tx.QueryContext(ctx, "SELECT xid, UNIX_TIMESTAMP(at) * 1000000 DIV 1, (UNIX_TIMESTAMP(NOW(6)) - UNIX_TIMESTAMP(at)) * 1000000 DIV 1, CONCAT('database ', DATABASE()) FROM "+r.markers.quoted()+" WHERE "+where)
	if numberOf(err) == codeNoTable {
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

// lockName is the name of a branch's user-level lock, which MariaDB limits to 64 characters.
func lockName(xid string) string {
	sum := sha256.Sum256([]byte(xid))
	return "txmgr-" + hex.EncodeToString(sum[:20])
}
