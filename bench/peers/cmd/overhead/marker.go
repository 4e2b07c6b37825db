package main

import (
	"context"
	"errors"
	"strings"
)

// A marker row proves that a local transaction has committed: a program whose COMMIT was not answered
// looks for it. Manually it is sent with the statement that begins the transaction, and costs no round
// trip of its own. Its primary key is the transaction's name.

// prunedAtOnce is how many marker rows a worker removes together.
const prunedAtOnce = 100

func createMarkers(ctx context.Context, p *pools) error {
	_, errPG := p.pg.Exec(ctx, "CREATE TABLE marker (name text PRIMARY KEY)")
	_, errMy := p.my.ExecContext(ctx, "CREATE TABLE marker (name VARBINARY(64) NOT NULL PRIMARY KEY) ENGINE=InnoDB")
	return errors.Join(errPG, errMy)
}

// markers are the names whose rows a worker has yet to remove from one database.
type markers []string

// add returns the statement that removes the rows when there are enough, and "" before that.
func (m *markers) add(name string) (prune string) {
	if *m = append(*m, name); len(*m) < prunedAtOnce {
		return ""
	}
	prune = "DELETE FROM marker WHERE name IN (" + strings.Join(*m, ", ") + ")"
	*m = (*m)[:0]
	return prune
}

// markedPG is a local transaction of PostgreSQL with a marker row.
func (h *manualCommit) markedPG(ctx context.Context, worker int) error {
	w := h.begin(worker)
	w.row += maxWorkers
	if err := w.simplePG(ctx, "BEGIN; INSERT INTO marker VALUES ("+w.name+")"); err != nil {
		return err
	}
	if err := w.execPG(ctx, "UPDATE 1", pgUpdate, 1, w.row); err != nil {
		return err
	}
	if err := w.execPG(ctx, "COMMIT", "COMMIT"); err != nil {
		return err
	}
	if prune := w.markersPG.add(w.name); prune != "" {
		return w.simplePG(ctx, prune)
	}
	return nil
}

// simplePG sends statements in one message.
func (w *manualWorker) simplePG(ctx context.Context, statements string) error {
	_, err := w.pg.Conn().PgConn().Exec(ctx, statements).ReadAll()
	return err
}

// markedMy is a local transaction of MariaDB with a marker row.
func (h *manualCommit) markedMy(ctx context.Context, worker int) error {
	w := h.begin(worker)
	w.row += maxWorkers
	begin := "BEGIN NOT ATOMIC START TRANSACTION; INSERT INTO marker VALUES (" + w.name + "); END"
	if err := w.execMy(ctx, begin, updateMy, "COMMIT"); err != nil {
		return err
	}
	if prune := w.markersMy.add(w.name); prune != "" {
		return w.execMy(ctx, prune)
	}
	return nil
}
