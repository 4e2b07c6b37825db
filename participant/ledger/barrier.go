package ledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
)

// bucketBarrier holds xid -> row. It is made when first written to.
var bucketBarrier = []byte("barrier")

// Barrier keeps the rows by which a web service knows its earlier answers, in the ledger in
// which it works. It is a store of web.Handler, whose callbacks get a [*Work].
//
// A callback runs without any lock: it buffers, as a branch of the ledger does. Afterwards its
// work and the row are written in one transaction of the file, if neither the row nor what it
// read has changed meanwhile. So several processes may run the same callback at once, and the
// work of one of them counts.
type Barrier struct{ store *store }

// Barrier returns the barrier in the ledger's file.
func (l *Ledger) Barrier() *Barrier { return &Barrier{l.store} }

// Limits of a row, in bytes.
const (
	maxState  = 16
	maxDetail = 600
	maxXID    = 128
)

// row is the barrier's record of one branch.
type row struct {
	state, detail string
	changed       time.Time // to the millisecond
}

func (r row) encode() []byte {
	b := binary.AppendVarint(nil, r.changed.UnixMilli())
	b = binary.AppendUvarint(b, uint64(len(r.state)))
	return append(append(b, r.state...), r.detail...)
}

func decodeRow(b []byte) (row, error) {
	r := reader{b: b}
	changed := time.UnixMilli(r.varint()).UTC()
	state := string(r.bytes(r.uvarint()))
	rw := row{state: state, detail: string(r.b), changed: changed}
	if r.err != nil {
		return row{}, r.err
	}
	if !bytes.Equal(rw.encode(), b) {
		return row{}, fmt.Errorf("%w: not in its only form", ErrCorrupt)
	}
	return rw, nil
}

// loadRow is load for a bucket that may not exist.
func loadRow(tx *bbolt.Tx, xid string) (row, error) {
	if tx.Bucket(bucketBarrier) == nil {
		return row{}, nil
	}
	rw, _, err := load(tx, bucketBarrier, xid, decodeRow)
	return rw, err
}

// errConflict: another request changed what a step was based on.
var errConflict = errors.New("changed meanwhile by another request; try again")

// rejectedError is the error of work that the ledger will not do, however often it is tried.
type rejectedError struct{ rejection }

// Refused makes web.Handler take this for an answer, not a failure.
func (rejectedError) Refused() bool { return true }

// Unwrap makes the store take it so, too.
func (d rejectedError) Unwrap() error { return d.rejection }

// Do runs step for the branch of a name. step gets the state and the detail of the branch's
// row, empty when there is none, and returns the new ones, which become durable together with
// what it did with the [Work]. When step returns the state that it got, or an error, nothing of
// that remains.
//
// An error with a method Refused that returns true means that the ledger will not do the work:
// a balance would go below zero, or an account is locked.
func (b *Barrier) Do(ctx context.Context, xid string, step func(ctx context.Context, w *Work, state, detail string) (newState, newDetail string, err error)) error {
	if xid == "" || len(xid) > maxXID {
		return fmt.Errorf("barrier: name of a branch has %d bytes; want 1 to %d", len(xid), maxXID)
	}
	var before row
	err := b.store.view(ctx, func(tx *bbolt.Tx) (err error) {
		before, err = loadRow(tx, xid)
		return err
	})
	if err != nil {
		return err
	}
	w := &Work{newBranchTx(b.store, "")}
	after := row{}
	after.state, after.detail, err = step(ctx, w, before.state, before.detail)
	if err != nil || after.state == before.state {
		return err
	}
	if len(after.state) > maxState || len(after.detail) > maxDetail {
		return fmt.Errorf("barrier: state of %d and detail of %d bytes; at most %d and %d", len(after.state), len(after.detail), maxState, maxDetail)
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx) // the time of the step has passed
	}
	after.changed = time.Now()
	done := w.close() // before the file is locked: a read that is under way waits for the file
	return b.store.update(ctx, func(tx *bbolt.Tx) error { return write(tx, xid, before, after, done) })
}

// write does the work and changes the row, unless another request was faster.
func write(tx *bbolt.Tx, xid string, before, after row, w work) error {
	now, err := loadRow(tx, xid)
	if err != nil {
		return err
	}
	if now != before {
		return conflictError(xid)
	}
	for _, name := range sortedKeys(w.reads) {
		if a, err := loadAccount(tx, name); err != nil {
			return err
		} else if a.version != w.reads[name] {
			return conflictError(name)
		}
	}
	if err := check(tx, w); err != nil {
		if r := (rejection{}); errors.As(err, &r) {
			return rejectedError{r}
		}
		return err
	}
	if err := apply(tx, w.changes); err != nil {
		return err
	}
	if _, err := tx.CreateBucketIfNotExists(bucketBarrier); err != nil {
		return err
	}
	return put(tx, bucketBarrier, []byte(xid), after.encode())
}

func conflictError(what string) error { return fmt.Errorf("%s: %w", what, errConflict) }

// List visits rows in the order of their names: those after the name after that begin with
// prefix and have the state, any if that is empty; at most limit.
func (b *Barrier) List(ctx context.Context, state, prefix, after string, limit int, visit func(xid, state string, since time.Time) error) error {
	type found struct {
		xid string
		row
	}
	var all []found // visited when the file is closed again
	err := b.store.view(ctx, func(tx *bbolt.Tx) error {
		all = nil
		bucket := tx.Bucket(bucketBarrier)
		if bucket == nil {
			return nil
		}
		c := bucket.Cursor()
		for key, _ := c.Seek([]byte(max(prefix, after))); key != nil && bytes.HasPrefix(key, []byte(prefix)) && len(all) < limit; key, _ = c.Next() {
			xid := string(key)
			rw, err := loadRow(tx, xid)
			if err != nil {
				return err
			}
			if xid != after && (state == "" || rw.state == state) {
				all = append(all, found{xid, rw})
			}
		}
		return nil
	})
	for _, f := range all {
		if err == nil {
			err = visit(f.xid, f.state, f.changed)
		}
	}
	return err
}

// Prune deletes rows that have not changed since before and have another state than keep, and
// returns how many.
func (b *Barrier) Prune(ctx context.Context, keep string, before time.Time) (pruned int, err error) {
	err = b.store.update(ctx, func(tx *bbolt.Tx) error {
		pruned = 0
		bucket := tx.Bucket(bucketBarrier)
		if bucket == nil {
			return nil
		}
		var old [][]byte
		err := each(tx, bucketBarrier, decodeRow, func(xid string, rw row) error {
			if rw.state != keep && rw.changed.Before(before) {
				old = append(old, []byte(xid))
			}
			return nil
		})
		for _, key := range old {
			err = errors.Join(err, bucket.Delete(key))
		}
		pruned = len(old)
		return err
	})
	return pruned, err
}
