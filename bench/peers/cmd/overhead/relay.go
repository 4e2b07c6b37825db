package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
)

const (
	relayEvery = 50 * time.Millisecond // 20 times a second
	relayBatch = 1000                  // rows
	relayRest  = time.Minute           // the longest time that the rest may take at the end
)

// relay applies the rows of an outbox to MariaDB, each exactly once: a transaction of MariaDB changes
// the accounts and keeps the ids of the rows, which are then deleted in PostgreSQL. If it dies between
// the two, it finds the ids when it meets the rows again.
type relay struct {
	pools *pools
	epoch time.Time
	// deleted are the rows that are no longer in the outbox: their ids need not be kept.
	deleted []int64

	mu    sync.Mutex
	from  time.Duration  // guarded by mu: changes count that began then, or later
	delay *rig.Latencies // guarded by mu: from the beginning of the caller until MariaDB has the change
}

// change is a row of the outbox.
type change struct {
	ID      int64
	Account int
	Amount  int64
	Began   int64 // nanoseconds since the relay's epoch
}

func newRelay(p *pools) *relay {
	return &relay{pools: p, epoch: time.Now(), delay: new(rig.Latencies)}
}

// now is the time since the relay's epoch.
func (r *relay) now() time.Duration { return time.Since(r.epoch) }

// count forgets what was measured before, and measures changes that begin from now on.
func (r *relay) count() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.from, r.delay = r.now(), new(rig.Latencies)
}

// delays are what was measured.
func (r *relay) delays() *rig.Latencies {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.delay
}

// run polls until ctx ends, and applies then what is left.
func (r *relay) run(ctx context.Context) error {
	tick := time.NewTicker(relayEvery)
	defer tick.Stop()
	finish, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	for {
		select {
		case <-tick.C:
			if err := r.empty(finish); err != nil {
				return err
			}
		case <-ctx.Done():
			limited, cancel := context.WithTimeout(finish, relayRest)
			defer cancel()
			return r.empty(limited)
		}
	}
}

// empty applies changes until a batch is not full.
func (r *relay) empty(ctx context.Context) error {
	for {
		batch, err := r.poll(ctx)
		if err == nil && len(batch) > 0 {
			err = r.deliver(ctx, batch)
		}
		if err != nil {
			return fmt.Errorf("relay of the outbox: %w", err)
		}
		if len(batch) < relayBatch {
			return nil
		}
	}
}

func (r *relay) poll(ctx context.Context) ([]change, error) {
	rows, err := r.pools.pg.Query(ctx, "SELECT id, account, amount, began FROM outbox ORDER BY id LIMIT $1", relayBatch)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[change])
}

// deliver applies a batch and deletes its rows.
func (r *relay) deliver(ctx context.Context, batch []change) error {
	if err := r.apply(ctx, batch); err != nil {
		return err
	}
	r.measure(batch)
	ids := rig.Of(batch, func(c change) int64 { return c.ID })
	_, err := r.pools.pg.Exec(ctx, "DELETE FROM outbox WHERE id = ANY($1)", ids)
	if err == nil {
		r.deleted = ids
	}
	return err
}

// apply applies those of the batch that were not applied before.
func (r *relay) apply(ctx context.Context, batch []change) (err error) {
	tx, err := r.pools.my.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // without effect after the commit
	known, err := applied(ctx, tx, batch)
	if err != nil {
		return err
	}
	var ids, amounts []string
	for _, c := range batch {
		if known[c.ID] {
			continue
		}
		ids = append(ids, fmt.Sprintf("(%d)", c.ID))
		amounts = append(amounts, fmt.Sprintf("(%d, %d)", c.Account, c.Amount))
	}
	var statements []string
	if len(ids) > 0 {
		statements = append(statements, "INSERT INTO applied VALUES "+strings.Join(ids, ", "),
			"INSERT INTO account VALUES "+strings.Join(amounts, ", ")+" ON DUPLICATE KEY UPDATE balance = balance + VALUES(balance)")
	}
	if len(r.deleted) > 0 {
		statements = append(statements, "DELETE FROM applied WHERE id IN ("+list(r.deleted)+")")
	}
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// applied returns the ids of the batch that MariaDB knows.
func applied(ctx context.Context, tx *sql.Tx, batch []change) (map[int64]bool, error) {
	ids := rig.Of(batch, func(c change) int64 { return c.ID })
	rows, err := tx.QueryContext(ctx, "SELECT id FROM applied WHERE id IN ("+list(ids)+")")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	known := make(map[int64]bool)
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		known[id] = true
	}
	return known, rows.Err()
}

func (r *relay) measure(batch []change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for _, c := range batch {
		if began := time.Duration(c.Began); began >= r.from {
			r.delay.Record(now - began)
		}
	}
}

func list(ids []int64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ", "), "[]")
}
