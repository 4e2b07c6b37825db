package testdb

import (
	"context"
	"sync/atomic"
)

// TB is what the helpers need of a *testing.T or *testing.B.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(f func())
	Context() context.Context
}

// OpenPostgres is [StartPostgres] for a test that needs a server of its own. It
// is closed with the test.
func OpenPostgres(tb TB, c PostgresConfig) *Postgres {
	tb.Helper()
	p, err := StartPostgres(tb.Context(), c)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Fatalf("%v", err)
		}
	})
	return p
}

// OpenMariaDB is [StartMariaDB] for a test that needs a server of its own. It is
// closed with the test.
func OpenMariaDB(tb TB, c MariaDBConfig) *MariaDB {
	tb.Helper()
	m, err := StartMariaDB(tb.Context(), c)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	tb.Cleanup(func() {
		if err := m.Close(); err != nil {
			tb.Fatalf("%v", err)
		}
	})
	return m
}

var databases atomic.Uint64

// NewDatabase creates a database for one test and returns its name, which begins with begins and is
// never used again in this process.
func (p *Postgres) NewDatabase(tb TB, begins string) string {
	tb.Helper()
	return newDatabase(tb, begins, p.CreateDatabase)
}

// NewDatabase creates a database for one test and returns its name, which begins with begins and is
// never used again in this process.
func (m *MariaDB) NewDatabase(tb TB, begins string) string {
	tb.Helper()
	return newDatabase(tb, begins, m.CreateDatabase)
}

func newDatabase(tb TB, begins string, create func(context.Context, string) error) string {
	tb.Helper()
	name := begins + "_" + letters(databases.Add(1))
	if err := create(tb.Context(), name); err != nil {
		tb.Fatalf("%v", err)
	}
	return name
}

// letters formats a number with letters alone: names that need no quoting.
func letters(n uint64) string {
	var b []byte
	for ; n > 0; n /= 26 {
		b = append(b, byte('a'+n%26))
	}
	return string(b)
}
