package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// manualCommit is the work of a careful program without a coordinator, on connections that it
// keeps.
type manualCommit struct {
	workers []*manualWorker
}

type manualWorker struct {
	id   int
	seq  int // of its transactions; names are never reused
	pg   *pgxpool.Conn
	my   *sql.Conn
	name string // of the transaction in progress
	row  int    // that it changes

	markersPG, markersMy markers
}

// newManualCommit takes a connection of each pool for every worker.
func newManualCommit(ctx context.Context, p *pools, workers int) (*manualCommit, error) {
	h := new(manualCommit)
	for id := range workers {
		w := &manualWorker{id: id}
		h.workers = append(h.workers, w)
		var errPG, errMy error
		w.pg, errPG = p.pg.Acquire(ctx)
		w.my, errMy = p.my.Conn(ctx)
		if err := errors.Join(errPG, errMy); err != nil {
			return h, errors.Join(err, h.close())
		}
	}
	return h, nil
}

func (h *manualCommit) close() error {
	var errs []error
	for _, w := range h.workers {
		if w.pg != nil {
			w.pg.Release()
		}
		if w.my != nil {
			errs = append(errs, w.my.Close())
		}
	}
	return errors.Join(errs...)
}

// sequential runs every step after the other: the work and the prepare in PostgreSQL, then in
// MariaDB, then both commits.
func (h *manualCommit) sequential(ctx context.Context, worker int) error {
	w := h.begin(worker)
	for _, step := range []func(context.Context) error{w.preparePG, w.prepareMy, w.commitPG, w.commitMy} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// parallel runs the steps in both databases at once, as far as they do not depend on each other.
func (h *manualCommit) parallel(ctx context.Context, worker int) error {
	w := h.begin(worker)
	if err := both(ctx, w.preparePG, w.prepareMy); err != nil {
		return err
	}
	return both(ctx, w.commitPG, w.commitMy)
}

// twoLocal commits a local transaction in PostgreSQL and then one in MariaDB. A program that dies
// between the two has changed one database only.
func (h *manualCommit) twoLocal(ctx context.Context, worker int) error {
	w := h.begin(worker)
	if err := w.workPG(ctx); err != nil {
		return err
	}
	if err := w.execPG(ctx, "COMMIT", "COMMIT"); err != nil {
		return err
	}
	return w.execMy(ctx, "START TRANSACTION", updateMy, "COMMIT")
}

// plainPG is a local transaction of PostgreSQL.
func (h *manualCommit) plainPG(ctx context.Context, worker int) error {
	w := h.begin(worker)
	w.row += maxWorkers
	if err := w.workPG(ctx); err != nil {
		return err
	}
	return w.execPG(ctx, "COMMIT", "COMMIT")
}

// plainMy is a local transaction of MariaDB.
func (h *manualCommit) plainMy(ctx context.Context, worker int) error {
	w := h.begin(worker)
	w.row += maxWorkers
	return w.execMy(ctx, "START TRANSACTION", updateMy, "COMMIT")
}

func (h *manualCommit) begin(worker int) *manualWorker {
	w := h.workers[worker]
	w.seq++
	w.row = w.id
	w.name = fmt.Sprintf("'hand_%d_%d'", w.id, w.seq)
	return w
}

func both(ctx context.Context, here, there func(context.Context) error) error {
	var wg sync.WaitGroup
	var errThere error
	wg.Go(func() { errThere = there(ctx) })
	errHere := here(ctx)
	wg.Wait()
	return errors.Join(errHere, errThere)
}

func (w *manualWorker) workPG(ctx context.Context) error {
	if err := w.execPG(ctx, "BEGIN", "BEGIN"); err != nil {
		return err
	}
	return w.execPG(ctx, "UPDATE 1", pgUpdate, 1, w.row)
}

func (w *manualWorker) preparePG(ctx context.Context) error {
	if err := w.workPG(ctx); err != nil {
		return err
	}
	return w.execPG(ctx, "PREPARE TRANSACTION", "PREPARE TRANSACTION "+w.name)
}

func (w *manualWorker) commitPG(ctx context.Context) error {
	return w.execPG(ctx, "COMMIT PREPARED", "COMMIT PREPARED "+w.name)
}

// execPG runs a statement and checks its command tag: PREPARE TRANSACTION and COMMIT of a failed
// transaction return no error.
func (w *manualWorker) execPG(ctx context.Context, want, statement string, args ...any) error {
	var mode []any
	if len(args) == 0 {
		mode = []any{pgx.QueryExecModeSimpleProtocol}
	}
	tag, err := w.pg.Exec(ctx, statement, append(mode, args...)...)
	if err == nil && tag.String() != want {
		err = fmt.Errorf("answered by %q", tag)
	}
	if err != nil {
		return fmt.Errorf("PostgreSQL: %s: %w", statement, err)
	}
	return nil
}

// updateMy is the place of the work among the statements.
const updateMy = ""

func (w *manualWorker) prepareMy(ctx context.Context) error {
	return w.execMy(ctx, "XA START "+w.name, updateMy, "XA END "+w.name, "XA PREPARE "+w.name)
}

func (w *manualWorker) commitMy(ctx context.Context) error { return w.execMy(ctx, "XA COMMIT "+w.name) }

func (w *manualWorker) execMy(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		var args []any
		if statement == updateMy {
			statement, args = myUpdate, []any{1, w.row}
		}
		if _, err := w.my.ExecContext(ctx, statement, args...); err != nil {
			return fmt.Errorf("MariaDB: %s: %w", statement, err)
		}
	}
	return nil
}
