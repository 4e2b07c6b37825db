package testdb

import "testing"

// TestStandbyThatFellBehind: the WAL that a standby lacks is kept, however many checkpoints the
// primary has made since.
func TestStandbyThatFellBehind(t *testing.T) {
	p := OpenPostgres(t, PostgresConfig{NoFsync: true})
	standby, err := p.Backup(t.Context())
	check(t, err)
	t.Cleanup(func() { check(t, standby.Close()) })
	check(t, standby.Follow(t.Context(), p, "s1"))
	check(t, standby.Stop(t.Context()))
	for range 3 {
		check(t, p.exec(t.Context(), "SELECT pg_switch_wal()"))
		check(t, p.exec(t.Context(), "CHECKPOINT"))
	}
	check(t, p.exec(t.Context(), "CREATE DATABASE later"))
	check(t, standby.Start(t.Context()))
	check(t, standby.await(t.Context(), "SELECT EXISTS (SELECT FROM pg_database WHERE datname = 'later')"))
}
