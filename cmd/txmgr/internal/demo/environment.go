package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/txn"
)

// environment is the databases of a demo and the servers that were started for them.
type environment struct {
	dbs     [2]database
	claim   string
	closing []func() error
}

func (s *environment) close() error {
	var errs []error
	for _, f := range slices.Backward(s.closing) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// databaseNames are the names of the databases that the demo creates itself.
var databaseNames = [2]string{"bank", "savings"}

// openEnvironment finds, or starts, the databases. dir is the directory of the demo.
func openEnvironment(ctx context.Context, c Config, dir string) (*environment, error) {
	switch c.Databases {
	case "", "auto":
		return privateEnvironment(ctx, c.Reporter, dir, false)
	case "embedded":
		return ledgerEnvironment(dir), nil
	case "scratch":
		return privateEnvironment(ctx, c.Reporter, dir, true)
	}
	return userEnvironment(ctx, c.Databases, dir)
}

func ledgerEnvironment(dir string) *environment {
	return &environment{
		dbs: [2]database{newLedgerDatabase(databaseNames[0], dir), newLedgerDatabase(databaseNames[1], dir)},
		claim: "atomic commit over two embedded stores with a true prepare phase, fsync included, and a web service; " +
			"--databases scratch uses PostgreSQL and MariaDB",
	}
}

// servers are the private servers of a demo, with the errors of those that could not be started.
type servers struct {
	pg         *testdb.Postgres
	maria      *testdb.MariaDB
	pgErr, err error
}

// startServers starts both at the same time.
func startServers(ctx context.Context) (s servers) {
	var both sync.WaitGroup
	both.Go(func() { s.pg, s.pgErr = testdb.StartPostgres(ctx, testdb.PostgresConfig{}) })
	both.Go(func() { s.maria, s.err = testdb.StartMariaDB(ctx, testdb.MariaDBConfig{}) })
	both.Wait()
	return s
}

// privateEnvironment starts private servers. Unless both are required, a ledger replaces one that
// is not available.
func privateEnvironment(ctx context.Context, reporter Reporter, dir string, required bool) (_ *environment, err error) {
	began := time.Now()
	started := startServers(ctx)
	s := &environment{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	var made []database
	if started.pgErr == nil {
		s.closing = append(s.closing, started.pg.Close)
		db, err := openPostgres(ctx, started.pg, databaseNames[0], dir)
		if err != nil {
			return nil, err
		}
		made = append(made, db)
	}
	if started.err == nil {
		s.closing = append(s.closing, started.maria.Close)
		db, err := openMariaDB(ctx, started.maria, databaseNames[len(made)], dir)
		if err != nil {
			return nil, err
		}
		made = append(made, db)
	}
	if missing := errors.Join(started.pgErr, started.err); required && missing != nil || ctx.Err() != nil {
		return nil, missing
	}
	for _, missing := range []error{started.pgErr, started.err} {
		if missing != nil {
			reporter.printf("%-12s an embedded ledger is used instead: %v", "note", firstLine(missing))
		}
	}
	if len(made) > 0 {
		reporter.printf("%-12s private servers started in %v", "scratch", time.Since(began).Round(100*time.Millisecond))
	}
	s.claim = claimOf(started)
	for n := len(made); n < len(s.dbs); n++ {
		made = append(made, newLedgerDatabase(databaseNames[n], dir))
	}
	copy(s.dbs[:], made)
	return s, nil
}

// claimOf describes what a demo on these servers shows.
func claimOf(s servers) string {
	switch {
	case s.pgErr == nil && s.err == nil:
		return "atomic commit over PostgreSQL (PREPARE TRANSACTION), MariaDB (XA) and a web service"
	case s.pgErr == nil:
		return "atomic commit over PostgreSQL (PREPARE TRANSACTION), an embedded ledger and a web service"
	case s.err == nil:
		return "atomic commit over MariaDB (XA), an embedded ledger and a web service"
	}
	return ledgerEnvironment("").claim
}

func openPostgres(ctx context.Context, server *testdb.Postgres, name, dir string) (database, error) {
	if err := server.CreateDatabase(ctx, name); err != nil {
		return nil, err
	}
	where := fmt.Sprintf("database of a private PostgreSQL on port %d, process %d", server.Port(), server.PID())
	return newPostgresDatabase(ctx, name, server.DSN(name), where, dir)
}

func openMariaDB(ctx context.Context, server *testdb.MariaDB, name, dir string) (database, error) {
	if err := server.CreateDatabase(ctx, name); err != nil {
		return nil, err
	}
	where := fmt.Sprintf("database of a private MariaDB on port %d, process %d", server.Port(), server.PID())
	return newMariaDBDatabase(name, server.DSN(name), where, dir)
}

// firstLine is the first line of an error.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// userEnvironment uses databases of the user.
func userEnvironment(ctx context.Context, list, dir string) (*environment, error) {
	given, err := parseDatabases(list)
	if err != nil {
		return nil, err
	}
	s := &environment{claim: "atomic commit over your own databases, and a web service"}
	for i, g := range given {
		if strings.Contains(g.dsn, "://") {
			s.dbs[i], err = newPostgresDatabase(ctx, g.name, g.dsn, "your PostgreSQL database", dir)
		} else {
			s.dbs[i], err = newMariaDBDatabase(g.name, g.dsn, "your MariaDB database", dir)
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// parseDatabases parses NAME=DSN,NAME=DSN. A DSN may contain commas: the text after a comma begins
// a database only if it looks like one.
func parseDatabases(list string) (given [2]struct{ name, dsn string }, err error) {
	wrong := fmt.Errorf("%w: --databases wants auto, embedded, scratch, or two databases as NAME=DSN,NAME=DSN; a DSN has the form postgres://host/database, or user@tcp(host:3306)/database for MariaDB", txn.ErrInvalid)
	n := 0
	for part := range strings.SplitSeq(list, ",") {
		name, dsn, ok := strings.Cut(part, "=")
		switch {
		case ok && txn.CheckParticipantName(name) == nil && looksLikeDatabase(dsn):
			if n == len(given) {
				return given, wrong
			}
			given[n].name, given[n].dsn = name, dsn
			n++
		case n > 0:
			given[n-1].dsn += "," + part
		default:
			return given, wrong
		}
	}
	if n != len(given) || given[0].name == given[1].name {
		return given, wrong
	}
	return given, nil
}

// looksLikeDatabase reports whether a text looks like the DSN of a database.
func looksLikeDatabase(dsn string) bool {
	if strings.Contains(dsn, "://") {
		return true
	}
	c, err := mysql.ParseDSN(dsn)
	return err == nil && c.DBName != "" && strings.Contains(dsn, "(")
}
