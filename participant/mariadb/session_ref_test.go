package mariadb

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/mariadb/internal/errno"
	"github.com/txmgr/txmgr/txn"
)

// TestSessionRefText must never be rewritten: logs contain this text.
func TestSessionRefText(t *testing.T) {
	for want, s := range map[string]SessionRef{
		"conn=1234 start=1795292907 table=5f0c7d1e9a3b2846": {Conn: 1234, Start: 1795292907, Table: "5f0c7d1e9a3b2846"},
		"conn=18446744073709551615 start=1":                 {Conn: 1<<64 - 1, Start: 1},
	} {
		if got := s.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, err := ParseSessionRef(want); got != s || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
	}
}

func TestParseSessionRefAcceptsNoOtherForm(t *testing.T) {
	for _, text := range []string{
		"",
		"conn=1",
		"conn=0 start=1",
		"conn=1 start=0",
		"conn=1 start=-1",
		"conn=01 start=1",
		"conn=+1 start=1",
		"conn=1 start=1 ",
		"conn=1  start=1",
		"start=1 conn=1",
		"conn=1 start=1 table=",
		"conn=1 start=1 table=5f0c7d1e9a3b284",
		"conn=1 start=1 table=5F0C7D1E9A3B2846",
		"conn=1 start=1 table=5f0c7d1e9a3b2846 more=1",
		"conn=18446744073709551616 start=1",
		"conn=1 start=9223372036854775808",
		"1 1",
	} {
		if s, err := ParseSessionRef(text); !errors.Is(err, txn.ErrInvalid) {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
}

func TestSessionRefIsParsedAsItWasFormatted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := SessionRef{
			Conn:  rapid.Uint64Min(1).Draw(t, "conn"),
			Start: rapid.Int64Min(1).Draw(t, "start"),
			Table: rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[0-9a-f]{16}`)).Draw(t, "table"),
		}
		if got, err := ParseSessionRef(want.String()); got != want || err != nil {
			t.Errorf("%v: got %v, %v", want, got, err)
		}
		if len(want.String()) > txn.MaxSessionRef {
			t.Errorf("%q has %d bytes", want, len(want.String()))
		}
	})
}

func FuzzParseSessionRef(f *testing.F) {
	f.Add("conn=1234 start=1795292907 table=5f0c7d1e9a3b2846")
	f.Add("conn=1 start=1")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseSessionRef(text); err == nil && s.String() != text {
			t.Errorf("%q is read as %q", text, s)
		}
	})
}

// TestStartOfTheServerStaysTheSame at any fraction of a second, and for any time that is set in
// the connection.
func TestStartOfTheServerStaysTheSame(t *testing.T) {
	bank := newBank(t)
	conn, err := bank.pool.Conn(t.Context())
	check(t, err)
	defer func() { check(t, conn.Close()) }()
	first, err := bank.db.identify(t.Context(), conn, "")
	check(t, err)
	if again, err := bank.db.identify(t.Context(), conn, ""); again != first || err != nil {
		t.Errorf("a connection that is known is %v, %v; before: %v", again, err, first)
	}
	for i := range 3000 {
		if i == 2000 {
			_, err := conn.ExecContext(t.Context(), "SET time_zone = '-11:00', timestamp = 1000000000.7")
			check(t, err)
		}
		bank.db.forget()
		if again, err := bank.db.identify(t.Context(), conn, ""); again != first || err != nil {
			t.Fatalf("look %d: %v, %v; want %v", i, again, err, first)
		}
	}
	crash(t)
	bank.db.forget()
	var again SessionRef
	waittest.NoError(t, func() error {
		conn, err := bank.pool.Conn(t.Context())
		check(t, err)
		defer func() { _ = conn.Close() }() // it may be of the old server
		again, err = bank.db.identify(t.Context(), conn, "")
		return err
	})
	if again.Start < first.Start {
		t.Errorf("started at %d, after %d", again.Start, first.Start)
	}
}

// TestManualSQL: branches of applications that do not use this package are recovered like this
// package's own.
func TestManualSQL(t *testing.T) {
	for _, proof := range []string{"", "off", "other_table"} {
		t.Run("proof "+proof, func(t *testing.T) {
			bank := newBank(t)
			settings := map[string]string{}
			if proof != "" {
				settings["commit_marker"] = proof
			}
			r := bank.opened(t, settings)
			for _, end := range []string{"own commit", "own rollback", "recovered", "rolled back in time"} {
				conn, err := bank.pool.Conn(t.Context())
				check(t, err)
				br := newName()
				s, err := ManualSQL(br.XID, proof)
				check(t, err)
				run := func(statements ...string) {
					for _, statement := range statements {
						_, err := conn.ExecContext(t.Context(), statement)
						check(t, err)
					}
				}
				if s.Table != "" {
					run(s.Table)
				}
				check(t, conn.QueryRowContext(t.Context(), s.Session).Scan(&br.SessionRef))
				if end == "rolled back in time" && s.Table != "" {
					res, err := r.Rollback(t.Context(), br)
					wantEnd(t, res, err, participant.RolledBack)
					run(s.Begin[0])
					if _, err := conn.ExecContext(t.Context(), s.Begin[1]); errno.Of(err) != errno.Duplicate {
						t.Errorf("a branch begins that was rolled back: %v", err)
					}
					run(s.Prepare[0], s.Rollback)
					check(t, conn.Close())
					continue
				}
				run(s.Begin...)
				run("REPLACE INTO account VALUES ('alice', 7)")
				run(s.Prepare...)
				br.Vote = txn.VotePrepared
				want, balance := participant.Committed, int64(7)
				switch end {
				case "own commit":
					run(s.Commit)
				case "own rollback":
					run(s.Rollback)
					want, balance = participant.RolledBack, 0
				}
				if proof == "off" && end != "recovered" {
					want = participant.Unknown
				}
				if end == "rolled back in time" {
					want, balance = participant.RolledBack, 0
					res, err := r.Rollback(t.Context(), br)
					wantEnd(t, res, err, want)
				} else {
					res, err := r.Commit(t.Context(), br)
					wantEnd(t, res, err, want)
				}
				_ = conn.Close() // recovery may have ended it
				if got := bank.balance(t, "alice"); got != balance {
					t.Errorf("%s: balance %d, want %d", end, got, balance)
				}
				bank.exec(t, "DELETE FROM account")
			}
		})
	}
	for xid, proof := range map[string]string{"": "", "a": "no-such`name", "b": "x y"} {
		if s, err := ManualSQL(xid, proof); !errors.Is(err, txn.ErrInvalid) {
			t.Errorf("%q, %q: %v, %v", xid, proof, s, err)
		}
	}
}
