package soak

import (
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/participant/web"
)

// vaultService is the web service. The work of a branch is reserved until the transaction is
// decided.
type vaultService struct {
	url string
	// failPercent and hangPercent are the percentages of requests that it answers with 500, or with
	// nothing for longer than the coordinator waits.
	failPercent, hangPercent atomic.Int32
	failedCount, hungCount   atomic.Int64 // how often it did so
	conns                    atomic.Int32 // that are open, all of them the nodes'
}

// entry is what a branch does: a line of a journal.
type entry struct {
	account int
	delta   int64
}

// vaultPayload is the payload of a branch at the vault. Without a delta it only reads.
type vaultPayload struct {
	Account int   `json:"account"`
	Delta   int64 `json:"delta"`
}

func newVaultService(b *testEnv, db *sql.DB) *vaultService {
	_, err := db.ExecContext(b.t.Context(), "CREATE TABLE held (xid varchar(80) PRIMARY KEY)")
	b.must(err)
	db.SetMaxOpenConns(16)
	v := &vaultService{}
	s := httptest.NewUnstartedServer(v.faulty(web.Handler(web.SQL(db, web.PostgreSQL, ""), web.Callbacks[*sql.Tx]{
		Prepare: func(ctx context.Context, s *sql.Tx, b web.Branch) error {
			o, err := parsePayload(b)
			if err == nil && o.Delta == 0 {
				return web.ReadOnly
			}
			return apply(ctx, s, err, "INSERT INTO held VALUES ($1)", b.XID)
		},
		Commit: func(ctx context.Context, s *sql.Tx, b web.Branch) error {
			o, err := parsePayload(b)
			err = apply(ctx, s, err, "DELETE FROM held WHERE xid = $1", b.XID)
			err = apply(ctx, s, err, "UPDATE account SET balance = balance + $1 WHERE id = $2", o.Delta, o.Account)
			return apply(ctx, s, err, "INSERT INTO journal VALUES ($1, $2, $3)", b.TX.String(), o.Account, o.Delta)
		},
		Rollback: func(ctx context.Context, s *sql.Tx, b web.Branch) error {
			return apply(ctx, s, nil, "DELETE FROM held WHERE xid = $1", b.XID)
		},
	}, web.Options{})))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			v.conns.Add(1)
		case http.StateClosed, http.StateHijacked:
			v.conns.Add(-1)
		}
	}
	s.Start()
	b.t.Cleanup(s.Close)
	v.url = s.URL
	return v
}

func parsePayload(b web.Branch) (o vaultPayload, err error) {
	err = json.Unmarshal(b.Payload, &o)
	return o, err
}

// apply does nothing after an error.
func apply(ctx context.Context, s *sql.Tx, err error, statement string, args ...any) error {
	if err == nil {
		_, err = s.ExecContext(ctx, statement, args...)
	}
	return err
}

// faulty fails before the work, or after it.
func (v *vaultService) faulty(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		luck, late := rand.Int32N(100), rand.IntN(2) == 0
		switch broken, hung := v.failPercent.Load(), v.hangPercent.Load(); {
		case luck < broken:
			v.failedCount.Add(1)
			if late { // the work is done, and its answer is lost
				next.ServeHTTP(httptest.NewRecorder(), r)
			}
			http.Error(w, "out of order", http.StatusInternalServerError)
		case luck < broken+hung:
			v.hungCount.Add(1)
			timer := time.NewTimer(3 * time.Second)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-r.Context().Done():
			}
			if late {
				next.ServeHTTP(httptest.NewRecorder(), r)
			}
		default:
			next.ServeHTTP(w, r)
		}
	})
}
