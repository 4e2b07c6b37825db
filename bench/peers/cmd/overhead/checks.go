package main

import (
	"context"
	"fmt"
	"time"
)

// awaitPruned waits until the coordinators have pruned the marker rows of their transactions in
// MariaDB, so that no later contender pays for it.
func (f *contest) awaitPruned(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for _, s := range f.sites {
		for s.coordinator != nil {
			left, err := s.markersLeft(ctx)
			if err != nil {
				return fmt.Errorf("wait for marker rows to be pruned in database %s: %w", s.name, err)
			}
			if !left {
				break
			}
			<-tick.C
		}
	}
	return nil
}

// markersLeft reports whether there are marker rows of a coordinator.
func (p *pools) markersLeft(ctx context.Context) (left bool, err error) {
	// The table is created with the first branch.
	err = p.my.QueryRowContext(ctx, "SELECT EXISTS(SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'txmgr_branch')").Scan(&left)
	if err == nil && left {
		err = p.my.QueryRowContext(ctx, "SELECT EXISTS(SELECT 1 FROM txmgr_branch)").Scan(&left)
	}
	return left, err
}

// check fails unless the two databases of each site agree on how much was moved.
func (r *report) check(ctx context.Context, f *contest) error {
	r.Moved = make(map[place]int64)
	for where, s := range f.sites {
		n, err := s.moved(ctx)
		if err != nil {
			return err
		}
		r.Moved[where] = n
	}
	return nil
}

// versions are those of the databases.
func (f *contest) versions(ctx context.Context) (v versions, err error) {
	for _, s := range f.sites {
		if err := s.pg.QueryRow(ctx, "SHOW server_version").Scan(&v.PostgreSQL); err != nil {
			return v, fmt.Errorf("PostgreSQL: %w", err)
		}
		if err := s.my.QueryRowContext(ctx, "SELECT VERSION()").Scan(&v.MariaDB); err != nil {
			return v, fmt.Errorf("MariaDB: %w", err)
		}
		return v, nil
	}
	return v, nil
}
