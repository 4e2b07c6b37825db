package main

import (
	"context"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// startSite is a site without a coordinator on new servers.
func startSite(t *testing.T, workers int) *site {
	t.Helper()
	f := &contest{sites: make(map[place]*site)}
	t.Cleanup(func() {
		if err := f.close(); err != nil {
			t.Error(err)
		}
	})
	dir, err := scratch(os.TempDir()) // the accounts of the servers do not reach the test's own directory
	if err != nil {
		t.Fatal(err)
	}
	f.closers = append(f.closers, closing(func() error { return os.RemoveAll(dir) }))
	f.databases, err = startDatabases(t.Context(), dir, 10)
	f.closers = append(f.closers, closing(f.databases.close))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.addSite(t.Context(), nowhere, dir, "", workers); err != nil {
		t.Fatal(err)
	}
	return f.sites[nowhere]
}

// Each change is applied exactly once, even if the relay dies between its two commits, and its delay
// is measured.
func TestRelay(t *testing.T) {
	s := startSite(t, 2)
	ctx, r := t.Context(), s.outbox.relay
	write := func(times int) {
		t.Helper()
		for i := range times {
			if err := s.outbox.once(ctx, i%2); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(5)
	batch, err := r.poll(ctx)
	if err != nil || len(batch) != 5 {
		t.Fatalf("%d changes, %v", len(batch), err)
	}
	if err := r.apply(ctx, batch); err != nil {
		t.Fatal(err)
	}
	// Another relay meets the same changes and two more.
	s.outbox.relay = newRelay(s.pools)
	r = s.outbox.relay
	write(2)
	if err := r.empty(ctx); err != nil {
		t.Fatal(err)
	}
	if n, err := s.moved(ctx); err != nil || n != 7 {
		t.Fatalf("%d changes in both databases, %v; want 7", n, err)
	}
	r.count()
	write(1)
	if err := r.empty(ctx); err != nil {
		t.Fatal(err)
	}
	if n := r.delays().Count(); n != 1 {
		t.Errorf("%d delays were measured, want 1", n)
	}
	var left, known int
	errPG := s.pg.QueryRow(ctx, "SELECT count(*) FROM outbox").Scan(&left)
	errMy := s.my.QueryRowContext(ctx, "SELECT COUNT(*) FROM applied").Scan(&known)
	if errPG != nil || errMy != nil || left != 0 || known != 1 {
		t.Errorf("%d rows in the outbox, %v; %d ids of applied changes, %v; want none and that of the last change", left, errPG, known, errMy)
	}
}

// The relay empties the outbox when it ends.
func TestRelayEnds(t *testing.T) {
	s := startSite(t, 1)
	stop := beside(t.Context(), s.outbox.relay.run)
	const times = 20
	for range times {
		if err := s.outbox.once(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if n, err := s.moved(t.Context()); err != nil || n != times {
		t.Errorf("%d changes in both databases, %v; want %d", n, err, times)
	}
}

func TestBesideReturnsTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := beside(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			<-time.After(time.Second)
			return ctx.Err()
		})
		if err := stop(); err != context.Canceled {
			t.Error(err)
		}
	})
}

// The other ways without a coordinator change what they say.
func TestManualContenders(t *testing.T) {
	s := startSite(t, 2)
	for _, c := range all {
		if c.Place != nowhere || c.Key == "outbox" {
			continue
		}
		for i := range prunedAtOnce + 1 {
			if err := c.work(s).once(t.Context(), i%2); err != nil {
				t.Fatalf("%s: %v", c.Key, err)
			}
		}
	}
	pairs := int64(3 * (prunedAtOnce + 1)) // manual, manual-at-once, local
	if n, err := s.moved(t.Context()); err != nil || n != pairs {
		t.Errorf("%d transactions of both databases, %v; want %d", n, err, pairs)
	}
	var pg, my, markersPG, markersMy int
	errs := []error{
		s.pg.QueryRow(t.Context(), "SELECT -sum(balance)::bigint FROM account WHERE id >= $1", maxWorkers).Scan(&pg),
		s.my.QueryRowContext(t.Context(), "SELECT SUM(balance) FROM account WHERE id >= ?", maxWorkers).Scan(&my),
		s.pg.QueryRow(t.Context(), "SELECT count(*) FROM marker").Scan(&markersPG),
		s.my.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM marker").Scan(&markersMy),
	}
	if slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		t.Fatal(errs)
	}
	if want := 2 * (prunedAtOnce + 1); pg != want || my != want || markersPG != prunedAtOnce+1 || markersMy != prunedAtOnce+1 {
		t.Errorf("%d and %d transactions of one database, %d and %d marker rows; want %d and %d of each", pg, my, markersPG, markersMy, want, prunedAtOnce+1)
	}
}

func TestMarkersArePruned(t *testing.T) {
	var m markers
	for range 3 {
		for i := range prunedAtOnce {
			if prune := m.add("'x'"); (prune != "") != (i == prunedAtOnce-1) {
				t.Fatalf("after %d names: %q", i+1, prune)
			}
		}
	}
}
