package sim

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// txRecord is what an application knows of a transaction that it began.
type txRecord struct {
	id       txn.ID
	options  txn.Options
	branches []string // participants that were joined, in that order
	readOnly map[string]bool
	typed    bool                        // its service commits the work of prepare itself
	named    bool                        // the application named it without a call, so that a single branch decides
	last     bool                        // of several branches the last decides
	sent     atomic.Pointer[txn.Options] // the begin of a named one, once it was sent
	reported txn.State                   // the outcome that was reported: [txn.Committed] or [txn.RolledBack]; zero: none
	finished atomic.Bool                 // its application has done all its work
}

// runApp runs one application process after another, until the faults end.
func (w *World) runApp(n int, until time.Duration) {
	d, of, names := newRNG(w.plan.Seed, 1000+uint64(n)), newRNG(w.plan.Seed, 3000+uint64(n)), newRNG(w.plan.Seed, 7000+uint64(n))
	for w.now() < until {
		a := &app{w: w, n: n, rng: d, names: names, dead: make(chan struct{}), steps: -1}
		if d.oneIn(5) {
			a.steps, a.hangs = d.n(30), d.oneIn(3)
		}
		if of.oneIn(3) {
			a.session = w.openSession(a, newRNG(w.plan.Seed, uint64(of.n(1<<30))))
		}
		for i := 0; i < 5 && w.now() < until; i++ {
			a.runTransaction()
			if a.died() {
				break
			}
			sleep(d.between(0, 300*time.Millisecond))
		}
		a.session.finish()
	}
}

func (a *app) died() bool {
	select {
	case <-a.dead:
		return true
	default:
		return false
	}
}

// runTransaction runs one transaction of an application.
func (a *app) runTransaction() {
	d := a.rng
	o := txn.Options{ID: txn.NewID(time.Now(), d.entropy()), Mark: a.latestMark(), Name: "transfer", Timeout: d.between(300*time.Millisecond, 6*time.Second)}
	if d.oneIn(3) {
		o.Timeout = 10 * time.Second
	}
	o.Session = a.session.sessionID()
	r := &txRecord{id: o.ID, options: o, readOnly: map[string]bool{}}
	a.w.mu.Lock()
	a.w.apps[o.ID] = r
	a.w.ids = append(a.w.ids, o.ID)
	a.w.mu.Unlock()
	ctx, cancel := context.WithTimeout(a.w.ctx, 40*time.Second)
	defer cancel()
	defer r.finished.Store(true)
	if !a.hangs && a.names.oneIn(4) {
		r.last = true
		a.runLastDecides(ctx, r)
		return
	}
	m, o := a.naming(r)
	err := txn.Run(ctx, m, o, func(ctx context.Context, tx *txn.Tx) error { return a.transfer(ctx, tx, r) })
	a.w.noteTx(r.id, "application %d was told: %v", a.n, err)
	switch {
	case a.died(): // no outcome was reported
	case err == nil:
		r.reported = txn.Committed
	case errors.Is(err, txn.ErrRolledBack) && !errors.Is(err, txn.ErrInDoubt):
		r.reported = txn.RolledBack
	}
}

var errChanged = errors.New("sim: the application has changed its mind")

// transfer performs the work of one transaction.
func (a *app) transfer(ctx context.Context, tx *txn.Tx, r *txRecord) error {
	d := a.rng
	which := d.n(16)
	if which == 0 {
		which = 1 + d.n(3)
	}
	if which&1 != 0 {
		if err := a.atBank(ctx, tx, r); err != nil {
			return err
		}
	}
	if which&2 != 0 {
		if err := a.atStock(ctx, tx, r); err != nil {
			return err
		}
	}
	if which&12 == 12 {
		payload := []string{"yes", "yes", "yes", "yes", "look", "no"}[d.n(6)]
		if r.typed = d.oneIn(8); r.typed {
			payload = "typed"
		}
		r.branches = append(r.branches, "post")
		r.readOnly["post"] = payload != "yes"
		if _, err := tx.Enlist(ctx, txn.Enlistment{Participant: "post", Payload: []byte(payload)}); err != nil {
			return err
		}
	}
	if d.oneIn(6) {
		_ = tx.Extend(ctx, d.between(time.Second, 8*time.Second))
	}
	if d.oneIn(5) {
		a.w.countFault("application dawdles")
		sleepCtx(ctx, d.between(0, 2*r.options.Timeout))
	}
	if d.oneIn(10) {
		return errChanged
	}
	return nil
}

// atBank performs the work in the PostgreSQL model.
func (a *app) atBank(ctx context.Context, tx *txn.Tx, r *txRecord) error {
	s, err := txn.Join(ctx, tx, "bank", func(ctx context.Context, enlist txn.EnlistFunc) (*pgSession, error) {
		s, err := a.w.pg.begin(ctx, r.id, a)
		if err != nil {
			return nil, err
		}
		r.branches = append(r.branches, "bank")
		b, err := enlist(ctx, s.text(), nil)
		if err != nil {
			s.Release()
			return nil, err
		}
		s.gid = b.XID
		return s, nil
	})
	if err != nil {
		return err
	}
	if a.rng.oneIn(8) {
		r.readOnly["bank"] = true
		return nil
	}
	if err := s.exec(ctx); err != nil {
		return err
	}
	if a.w.plan.Bugs.EarlyCommit && a.rng.oneIn(4) {
		_, _ = s.CommitOnePhase(ctx)
		a.w.countFault("bug: committed on its own")
	}
	return nil
}

// atStock performs the work in the MariaDB model.
func (a *app) atStock(ctx context.Context, tx *txn.Tx, r *txRecord) error {
	s, err := txn.Join(ctx, tx, "stock", func(ctx context.Context, enlist txn.EnlistFunc) (*mdSession, error) {
		s, err := a.w.maria.connect(ctx, r.id, a)
		if err != nil {
			return nil, err
		}
		r.branches = append(r.branches, "stock")
		b, err := enlist(ctx, s.text(), nil)
		if err == nil {
			if a.rng.oneIn(30) { // it takes longer than the timeout of the transaction
				ctx = context.WithoutCancel(ctx)
				sleepCtx(a.w.ctx, r.options.Timeout+time.Second)
			}
			err = s.begin(ctx, b.XID)
		}
		if err != nil {
			s.Release()
			return nil, err
		}
		return s, nil
	})
	if err != nil {
		return err
	}
	return s.exec(ctx)
}

// runRandomCalls is a client that reads, repeats and contradicts what others do, at any node and at
// any time.
func (w *World) runRandomCalls(n int, until time.Duration) {
	d, late := newRNG(w.plan.Seed, 2000+uint64(n)), newRNG(w.plan.Seed, 4000+uint64(n))
	a := &app{w: w, n: 100 + n, rng: d, dead: make(chan struct{}), steps: -1}
	for w.now() < until {
		sleep(d.between(5*time.Millisecond, 250*time.Millisecond))
		r := w.pickTx(d)
		if r == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
		if w.forgets() && late.oneIn(4) {
			a.repeatLate(ctx, late)
		}
		switch d.n(12) {
		case 0:
			if o, ok := r.begin(); ok {
				w.countFault("client: begin repeated")
				_, _ = a.Begin(ctx, o)
			}
		case 1:
			if !r.finished.Load() {
				break // only the application that began it may commit
			}
			if r.reported == txn.RolledBack {
				if i, err := a.Get(ctx, r.id); err != nil || !i.State.Decided() {
					break // the application has reverted its work, so a commit that it has not reported yet is not allowed
				}
			}
			w.countFault("client: commit out of turn")
			_, _ = a.Commit(ctx, r.id, txn.CommitRequest{})
		case 2:
			if d.oneIn(4) {
				w.countFault("client: rollback out of turn")
				_, _ = a.Rollback(ctx, r.id, "sim: another client wants it")
			}
		case 3:
			w.countFault("client: done out of turn")
			_ = a.ReportCompletion(ctx, r.id)
		case 4:
			_, _ = a.Extend(ctx, r.id, d.between(time.Second, 4*time.Second))
		default:
			_, _ = a.Get(ctx, r.id)
		}
		cancel()
	}
}

// pickTx returns one of the transactions, more often a recent one.
func (w *World) pickTx(d *rng) *txRecord {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.ids) == 0 {
		return nil
	}
	i := d.n(len(w.ids))
	if d.n(3) > 0 {
		i = len(w.ids) - 1 - d.n(min(8, len(w.ids)))
	}
	return w.apps[w.ids[i]]
}
