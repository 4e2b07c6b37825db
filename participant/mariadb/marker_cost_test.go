package mariadb

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/participant/mariadb/internal/markertable"
	"github.com/txmgr/txmgr/participant/mariadb/internal/xa"
)

// BenchmarkMarkerRow compares what branches take with a marker row, with none, and with designs that
// were not chosen: see decisions 7 and 49. Eight connections work at once, on a server that syncs. Each
// iteration gives every design a turn, in any order; the metrics are the medians of the times relative to the marker
// row in the same iteration.
func BenchmarkMarkerRow(b *testing.B) {
	const workers, branchesPerTurn = 8, 25
	bank := newBankOn(b, testdb.OpenMariaDB(b, testdb.MariaDBConfig{}))
	bank.pool.SetMaxIdleConns(workers)
	table := markertable.Table(markertable.Default)
	origin, err := table.Ensure(b.Context(), bank.pool)
	check(b, err)
	bank.exec(b, "CREATE TABLE slot (conn BIGINT UNSIGNED PRIMARY KEY, xid VARBINARY(128) NOT NULL, previous VARBINARY(128) NOT NULL, at TIMESTAMP(6) NOT NULL) ENGINE=InnoDB")
	type worker struct {
		conn *sql.Conn
		id   uint64
	}
	var pool []worker
	for range workers {
		conn, err := bank.pool.Conn(b.Context())
		check(b, err)
		defer func() { check(b, conn.Close()) }()
		w := worker{conn: conn}
		check(b, conn.QueryRowContext(b.Context(), "SELECT CONNECTION_ID()").Scan(&w.id))
		bank.exec(b, fmt.Sprintf("INSERT INTO account VALUES ('%d', 1000000000)", w.id))
		bank.exec(b, fmt.Sprintf("INSERT INTO slot VALUES (%d, '', '', NOW(6))", w.id))
		pool = append(pool, w)
	}
	designs := []struct {
		name  string
		start func(w worker, xid string) string
	}{
		{"row", func(w worker, xid string) string { return table.Insert(xid, w.id, origin) + "; " }},
		{"returning", func(_ worker, xid string) string {
			return fmt.Sprintf("INSERT INTO %s (xid, kind) VALUES (%s, 1) RETURNING CONNECTION_ID(), origin; ", table.Quoted(), xa.BytesLiteral(xid))
		}},
		{"unchecked", func(_ worker, xid string) string {
			return fmt.Sprintf("INSERT INTO %s (xid, kind) VALUES (%s, 1); ", table.Quoted(), xa.BytesLiteral(xid))
		}},
		{"slot", func(w worker, xid string) string {
			return fmt.Sprintf("UPDATE slot SET previous = xid, xid = %s, at = NOW(6) WHERE conn = %d; ", xa.BytesLiteral(xid), w.id)
		}},
		{"none", func(worker, string) string { return "" }},
	}
	turn := func(start func(worker, string) string) time.Duration {
		var running sync.WaitGroup
		began := time.Now()
		for _, w := range pool {
			running.Go(func() {
				for range branchesPerTurn {
					xid := newName().XID
					n, err := xa.ParseName(xid)
					for _, statement := range []string{
						"BEGIN NOT ATOMIC XA START " + n.Literal() + "; SAVEPOINT s; " + start(w, xid) + "END",
						fmt.Sprintf("UPDATE account SET balance = balance - 1 WHERE id = '%d'", w.id),
						"BEGIN NOT ATOMIC RELEASE SAVEPOINT s; XA END " + n.Literal() + "; XA PREPARE " + n.Literal() + "; END",
						"XA COMMIT " + n.Literal(),
					} {
						if err == nil {
							_, err = w.conn.ExecContext(b.Context(), statement)
						}
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		running.Wait()
		took := time.Since(began)
		bank.exec(b, "TRUNCATE "+table.Quoted())
		return took
	}
	relative := make([][]float64, len(designs))
	for b.Loop() {
		took := make([]time.Duration, len(designs))
		for _, i := range rand.Perm(len(designs)) {
			took[i] = turn(designs[i].start)
		}
		for i := range designs {
			relative[i] = append(relative[i], float64(took[i])/float64(took[0]))
		}
	}
	for i, d := range designs {
		slices.Sort(relative[i])
		b.ReportMetric(relative[i][len(relative[i])/2], d.name+"/row")
	}
}
