package bank

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn"
)

// lockDelays measures how long after the deadline the locks of suspended applications are released.
type lockDelays struct {
	mu   sync.Mutex // guards late
	late map[string][]time.Duration
}

const (
	lockHoldTimeout = 2 * time.Second
	// maxLockDelay is the maximum delay of a lock's release while faults are injected,
	// maxMedianLockDelay the maximum median, and lockSampleInterval the minimum frequency of
	// samples.
	maxLockDelay       = 30 * time.Second
	maxMedianLockDelay = 3 * time.Second
	lockSampleInterval = 12 * time.Second
)

// holdLocks repeatedly locks a row in one place, never releases it itself, and measures when
// another connection gets it.
func (b *testEnv) holdLocks(ctx context.Context, place string) {
	pool, err := pgxpool.New(ctx, b.postgres.DSN(inBank))
	if err != nil {
		b.t.Error(err)
		return
	}
	defer pool.Close()
	db, err := openMariaDB(b.mariadb.DSN(inSavings))
	if err != nil {
		b.t.Error(err)
		return
	}
	defer db.Close()
	bank, savings := postgres.New(inBank, pool), mariadb.New(inSavings, db)
	update := "UPDATE squat SET n = n + 1 WHERE id = 1"
	for rig.Sleep(ctx, 500*time.Millisecond) {
		opening, cancel := context.WithTimeout(ctx, lockHoldTimeout)
		tx, err := txn.Start(opening, b.m, txn.Options{Name: "squat in " + place, Timeout: lockHoldTimeout})
		cancel()
		if err != nil {
			continue // the coordinator is down
		}
		begun := time.Now()
		working, cancel := context.WithTimeout(ctx, lockHoldTimeout)
		if place == inBank {
			_, err = bank.Exec(working, tx, update)
		} else {
			_, err = savings.Exec(working, tx, update)
		}
		cancel()
		if err == nil {
			b.awaitLock(ctx, place, begun.Add(lockHoldTimeout))
		}
		_ = tx.Rollback(ctx, "the squatter goes home") // it was rolled back long ago
	}
}

// awaitLock waits for the row.
func (b *testEnv) awaitLock(ctx context.Context, place string, due time.Time) {
	other, locks := b.bank, "SELECT n FROM squat WHERE id = 1 FOR UPDATE"
	if place == inSavings {
		other, locks = b.savings, "SET STATEMENT innodb_lock_wait_timeout = 30 FOR "+locks
	}
	waiting, cancel := context.WithDeadline(ctx, due.Add(maxLockDelay))
	defer cancel()
	err := rig.Retry(waiting, func() error {
		var n int
		return query(waiting, other, locks, &n)
	})
	late := time.Since(due)
	switch {
	case ctx.Err() != nil && late < maxLockDelay: // the faults have ended
	case err != nil:
		b.t.Errorf("%s: a row was not free %v after the deadline of the session that had locked it: %v", place, late.Round(time.Millisecond), err)
	default:
		b.lockDelays.mu.Lock()
		defer b.lockDelays.mu.Unlock()
		if b.lockDelays.late == nil {
			b.lockDelays.late = map[string][]time.Duration{}
		}
		b.lockDelays.late[place] = append(b.lockDelays.late[place], late)
	}
}

// query reads one value, in a transaction that ends with it.
func query(ctx context.Context, db *sql.DB, text string, into any, args ...any) error {
	return db.QueryRowContext(ctx, text, args...).Scan(into)
}

// check describes what is wrong in one place; empty if nothing is.
func (s *lockDelays) check(place string, storm time.Duration) string {
	late := slices.Sorted(slices.Values(s.late[place]))
	switch {
	case len(late) == 0 || len(late) < int(storm/lockSampleInterval):
		return fmt.Sprintf("only %d times was it seen whether a lock is free at the deadline", len(late))
	case late[len(late)/2] > maxMedianLockDelay:
		return fmt.Sprintf("a lock is usually free %v after the deadline; want at most %v", late[len(late)/2], maxMedianLockDelay)
	}
	return ""
}

func (s *lockDelays) String() string {
	text := ""
	for _, place := range places[:2] {
		late := slices.Sorted(slices.Values(s.late[place]))
		if len(late) > 0 {
			text += fmt.Sprintf("%s: %d times, median %v, worst %v; ", place, len(late), late[len(late)/2].Round(time.Millisecond), late[len(late)-1].Round(time.Millisecond))
		}
	}
	return text
}
