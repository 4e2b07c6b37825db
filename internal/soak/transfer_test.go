package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/participant/web"
	"github.com/txmgr/txmgr/txn"
)

// transfer is a transaction that moves money, and the outcome that its caller got.
type transfer struct {
	id      txn.ID // made by the client; zero: it has not begun
	kind    string
	legs    map[string]entry
	outcome string
	err     error
}

// The kinds of transfers, and how many in a hundred are of each.
const (
	kindPlain     = "plain"     // two or three places
	kindSingle    = "single"    // one place, without a prepare
	kindShared    = "helped"    // another application does one part, and votes for it
	kindCancelled = "hasty"     // its caller's context ends in the middle
	kindAbandon   = "abandoned" // only its own timeout ends it
)

var kinds = []struct {
	name  string
	share int
}{{kindPlain, 50}, {kindSingle, 15}, {kindShared, 12}, {kindCancelled, 18}, {kindAbandon, 5}}

// The outcomes of transfers, as callers get them.
const (
	outcomeOK          = "ok"
	outcomeRolledBack  = "rolled back"
	outcomeInDoubt     = "in doubt"
	outcomeUnavailable = "unavailable" // it has not begun
	outcomeOther       = "other"
)

func draw() *transfer {
	tr := &transfer{kind: kindPlain, legs: map[string]entry{}}
	luck := rand.IntN(100)
	for _, k := range kinds {
		if luck -= k.share; luck < 0 {
			tr.kind = k.name
			break
		}
	}
	places, amount := []string{inBank, inSavings, inVault}, 1+rand.Int64N(20)
	rand.Shuffle(len(places), func(i, k int) { places[i], places[k] = places[k], places[i] })
	leg := func(place string, delta int64) { tr.legs[place] = entry{rand.IntN(accounts), delta} }
	switch {
	case tr.kind == kindSingle:
		leg(inBank, 0)
	case tr.kind == kindShared:
		leg(inBank, -amount)
		leg(inSavings, amount)
	case rand.IntN(3) == 0:
		leg(places[0], -2*amount)
		leg(places[1], amount)
		leg(places[2], amount)
	default:
		leg(places[0], -amount)
		leg(places[1], amount)
	}
	return tr
}

// attempt makes a transfer, and records the outcome.
func (l *load) attempt(m *recordingClient, tr *transfer) {
	ctx, cancel := context.Background(), func() {}
	o := txn.Options{Name: tr.kind, Timeout: between(6*time.Second, 12*time.Second)}
	switch tr.kind {
	case kindCancelled:
		ctx, cancel = shortContext(2*time.Millisecond, 250*time.Millisecond)
	case kindAbandon:
		o.Timeout = between(500*time.Millisecond, 2*time.Second)
	}
	defer cancel()
	err := l.b.calls.call(callRun, ctx, func() error {
		return txn.Run(ctx, m, o, func(ctx context.Context, tx *txn.Tx) error { return l.move(ctx, m, tx, tr) })
	})
	switch rolledBack, inDoubt := errors.Is(err, txn.ErrRolledBack), errors.Is(err, txn.ErrInDoubt); {
	case err == nil:
		tr.outcome = outcomeOK
	case rolledBack && inDoubt:
		tr.outcome = outcomeOther
	case rolledBack:
		tr.outcome = outcomeRolledBack
	case inDoubt:
		tr.outcome = outcomeInDoubt
	case errors.Is(err, txn.ErrUnavailable):
		tr.outcome = outcomeUnavailable
	default:
		tr.outcome = outcomeOther
	}
	tr.err = err
}

// move is the body of the transaction.
func (l *load) move(ctx context.Context, m *recordingClient, tx *txn.Tx, tr *transfer) error {
	tr.id = tx.ID()
	l.addID(tr.id)
	for place, e := range tr.legs {
		if tr.kind == kindShared && place == inSavings {
			continue
		}
		if err := l.at(ctx, tx, place, e); err != nil {
			return err
		}
	}
	switch tr.kind {
	case kindAbandon:
		rig.Sleep(context.Background(), tx.Timeout()+time.Second) // ignores the end of ctx
	case kindShared:
		return l.runHelper(ctx, m, tr)
	}
	return nil
}

// runHelper is another application, which does its part of a transfer, votes, and completes its
// branch when it learns the decision.
func (l *load) runHelper(ctx context.Context, m *recordingClient, tr *transfer) error {
	ctx = context.WithoutCancel(ctx)
	return l.b.calls.call(callRunIn, ctx, func() error {
		own, err := txn.RunIn(ctx, m, tr.id, func(ctx context.Context, tx *txn.Tx) error {
			return l.at(ctx, tx, inSavings, tr.legs[inSavings])
		})
		if err == nil {
			l.followers.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				defer cancel()
				_ = l.b.calls.call(callFollow, ctx, func() error { return own.Complete(ctx) })
			})
		}
		return err
	})
}

func (l *load) at(ctx context.Context, tx *txn.Tx, place string, e entry) (err error) {
	m := l.b.money
	switch place {
	case inVault:
		return web.New(inVault).EnlistJSON(ctx, tx, vaultPayload{e.account, e.delta})
	case inSavings:
		if _, err = m.maria.Exec(ctx, tx, "UPDATE account SET balance = balance + ? WHERE id = ?", e.delta, e.account); err == nil {
			_, err = m.maria.Exec(ctx, tx, "INSERT INTO journal VALUES (?, ?, ?)", tx.String(), e.account, e.delta)
		}
		return err
	}
	if _, err = m.pg.Exec(ctx, tx, "UPDATE account SET balance = balance + $1 WHERE id = $2", e.delta, e.account); err == nil {
		_, err = m.pg.Exec(ctx, tx, "INSERT INTO journal VALUES ($1, $2, $3)", tx.String(), e.account, e.delta)
	}
	return err
}

// check describes what is wrong in the journals about a transfer; empty if nothing is.
func (tr *transfer) check(found map[string]entry) string {
	for place, e := range found {
		if e != tr.legs[place] {
			return fmt.Sprintf("%s has %+v, want %+v", place, e, tr.legs[place])
		}
	}
	switch whole := len(found) == len(tr.legs); {
	case tr.id.IsZero() && tr.outcome == outcomeOK:
		return "it has not begun"
	case len(found) > 0 && !whole:
		return fmt.Sprintf("half of it is there: %v of %v", found, tr.legs)
	case tr.outcome == outcomeOther || tr.outcome == "":
		return "no caller should be told that"
	case tr.outcome == outcomeOK && !whole:
		return "it is not there"
	case tr.outcome != outcomeOK && tr.outcome != outcomeInDoubt && whole:
		return "it is there"
	case tr.kind == kindAbandon && whole:
		return "it was committed though it was abandoned"
	}
	return ""
}

// transfers makes one transfer after the other until ctx ends, and completes the last one.
func (l *load) transfers(ctx context.Context) {
	for ctx.Err() == nil {
		tr := draw()
		l.mu.Lock()
		l.made = append(l.made, tr)
		l.mu.Unlock()
		l.attempt(l.anyClient(), tr)
		rest := between(5*time.Millisecond, 30*time.Millisecond)
		if tr.outcome != outcomeOK {
			rest *= 3
		}
		rig.Sleep(ctx, rest)
	}
}
