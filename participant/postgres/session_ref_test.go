package postgres

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/participant/postgres/internal/markertable"
	"github.com/txmgr/txmgr/txn"
)

// TestSessionRefText must never be rewritten: logs contain this text.
func TestSessionRefText(t *testing.T) {
	s := SessionRef{PID: 1234, Start: time.Date(2026, 11, 21, 10, 30, 0, 123456789, time.FixedZone("CET", 3600)), XID: 789, System: 7710685338195144677}
	const want = "pid=1234 start=2026-11-21T09:30:00.123456Z xid=789 system=7710685338195144677"
	if got := s.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	got, err := ParseSessionRef(want)
	if s.Start = s.Start.UTC().Truncate(time.Microsecond); got != s || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	s.Recovered = time.Date(2026, 11, 1, 2, 3, 4, 5678, time.FixedZone("CET", 3600))
	if got := s.String(); got != want+" recovered=2026-11-01T01:03:04.000005Z" {
		t.Errorf("got %q", got)
	}
	s.Timeline = 26
	if got := s.String(); got != want+" recovered=2026-11-01T01:03:04.000005Z timeline=0000001A" {
		t.Errorf("got %q", got)
	}
	s.Written = 0x1_0300_0068
	if got := s.String(); got != want+" recovered=2026-11-01T01:03:04.000005Z timeline=0000001A written=1/3000068" {
		t.Errorf("got %q", got)
	}
	s.Recovered = time.Time{}
	if got := s.String(); got != want+" timeline=0000001A written=1/3000068" {
		t.Errorf("got %q", got)
	}
	s.Started, s.Replayed = time.Date(2026, 11, 1, 2, 3, 4, 5678, time.FixedZone("CET", 3600)), 0x1_0200_0060
	if got := s.String(); got != want+" timeline=0000001A written=1/3000068 started=2026-11-01T01:03:04.000005Z replayed=1/2000060" {
		t.Errorf("got %q", got)
	}
	s.Table = markertable.ID{Database: 16384, Relation: 16390}
	if got := s.String(); got != want+" timeline=0000001A written=1/3000068 started=2026-11-01T01:03:04.000005Z replayed=1/2000060 table=16384.16390" {
		t.Errorf("got %q", got)
	}
}

// TestSessionRefBySQL: the query in the documentation, for applications that do not use this
// package, returns the same as this package's own.
func TestSessionRefBySQL(t *testing.T) {
	page, err := os.ReadFile("../../docs/start.md")
	check(t, err)
	_, rest, _ := strings.Cut(string(page), "\nBEGIN;\n")
	query, _, found := strings.Cut(rest, ` \gset`)
	if !found {
		t.Fatal("the page has no query for a session reference")
	}
	conn, err := newBank(t).pool.Acquire(t.Context())
	check(t, err)
	defer conn.Release()
	want := identified(t, conn, "BEGIN; SET LOCAL TimeZone = 'Asia/Kathmandu'; SET LOCAL DateStyle = 'SQL, DMY'")
	defer rollback(t, conn)
	var got string
	check(t, conn.QueryRow(t.Context(), query).Scan(&got))
	if want.Recovered.IsZero() {
		t.Error("the lifetime of the server is not recorded")
	}
	want.Recovered = time.Time{} // the documented query leaves it out
	asked, err := ParseSessionRef(got)
	check(t, err)
	if asked.Timeline != 1 || asked.Written == 0 || asked.Written <= want.Written {
		t.Errorf("this package gives %v, and later the page's query %v", want, asked)
	}
	want.Written = asked.Written // each writes a record of its own
	if got != want.String() {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestABackendIsIdentifiedOnce: the cached session reference is used for the connection's next
// transaction, and not for another backend.
func TestABackendIsIdentifiedOnce(t *testing.T) {
	conn, err := newBank(t).pool.Acquire(t.Context())
	check(t, err)
	defer conn.Release()
	ask := func() SessionRef {
		t.Helper()
		defer rollback(t, conn)
		return identified(t, conn, "BEGIN")
	}
	first := ask()
	kept := conn.Conn().PgConn().CustomData()
	backend := first
	backend.XID, backend.Written = 0, 0
	if first.XID == 0 || kept[sessionKey] != backend {
		t.Fatalf("remembered %v of %v", kept[sessionKey], first)
	}
	want := first
	want.XID++
	second := ask()
	if second.Written <= first.Written {
		t.Errorf("the record of the next transaction is at %v, not after %v", lsn(second.Written), lsn(first.Written))
	}
	if want.Written = second.Written; second != want {
		t.Errorf("the next transaction is of %v, want %v", second, want)
	}
	another := first
	another.PID++
	another.System++
	kept[sessionKey] = another
	want.XID++
	third := ask()
	if want.Written = third.Written; third != want || kept[sessionKey] != backend {
		t.Errorf("after another backend %v, and remembered %v; want %v", third, kept[sessionKey], want)
	}
}

// identified begins a transaction, and returns what identifies it.
func identified(t testing.TB, conn *pgxpool.Conn, begin string) SessionRef {
	t.Helper()
	b := &branch{conn: conn}
	check(t, b.start(t.Context(), pgx.TxOptions{BeginQuery: begin}, time.Minute, ""))
	return b.sessionRef
}

func rollback(t testing.TB, conn *pgxpool.Conn) {
	t.Helper()
	_, err := conn.Exec(context.Background(), "ROLLBACK")
	check(t, err)
}

// BenchmarkBegin is what a branch costs before its work.
func BenchmarkBegin(b *testing.B) {
	bank := newBank(b)
	for b.Loop() {
		w, err := beginIn(b, bank.db, newBranch().XID)
		check(b, err)
		b.StopTimer()
		check(b, w.Rollback(b.Context()))
		w.Release()
		b.StartTimer()
	}
}

func TestParseSessionRefAcceptsNoOtherForm(t *testing.T) {
	for _, text := range []string{
		"",
		"pid=1",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=789",
		"pid=0 start=2026-11-21T09:30:00.123456Z xid=789 system=1",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=0 system=1",
		"pid=01 start=2026-11-21T09:30:00.123456Z xid=789 system=1",
		"pid=+1 start=2026-11-21T09:30:00.123456Z xid=789 system=1",
		"pid=-1 start=2026-11-21T09:30:00.123456Z xid=789 system=1",
		"pid=1 start=2026-11-21T09:30:00.12345Z xid=789 system=1",
		"pid=1 start=2026-11-21T09:30:00.1234567Z xid=789 system=1",
		"pid=1 start=2026-02-30T09:30:00.123456Z xid=789 system=1",
		"pid=1 start=2026-11-21T09:30:00.123456+01:00 xid=789 system=1",
		"pid=1 xid=789 start=2026-11-21T09:30:00.123456Z system=1",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=18446744073709551616 system=1",
		"pid=4294967296 start=2026-11-21T09:30:00.123456Z xid=1 system=1",
		"1 2026-11-21T09:30:00.123456Z 789 1",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=789 system=1 ",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=789 system=1 recovered=",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=789 system=1 recovered=0001-01-01T00:00:00.000000Z",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=789 system=1 recovered=2026-11-21T09:30:00Z",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=789 system=1 recovered=2026-11-21T09:30:00.123456Z x",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=789 system=1 timeline=1",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=789 system=1 timeline=00000000",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=789 system=1 timeline=0000000a",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=789 system=1 written=0/1",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=789 system=1 timeline=00000001 written=0/0",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=789 system=1 timeline=00000001 written=00/1",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=789 system=1 timeline=00000001 written=0/a",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=789 system=1 timeline=00000001 written=1",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=789 system=1 written=0/1 timeline=00000001",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=789 system=1 timeline=00000001 timeline=00000001",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=789 system=1 timeline=00000001 recovered=2026-11-21T09:30:00.123456Z",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=789 system=1 replayed=0/1",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=789 system=1 started=2026-11-21T09:30:00.123456Z replayed=0/0",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=789 system=1 started=2026-11-21T09:30:00Z",
		"pid=1 start=2026-11-21T09:30:00.123456Z xid=789 system=1 replayed=0/1 started=2026-11-21T09:30:00.123456Z",
		"pid=1  start=2026-11-21T09:30:00.123456Z xid=789 system=1",
	} {
		if s, err := ParseSessionRef(text); !errors.Is(err, txn.ErrInvalid) {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
}

func TestSessionRefIsParsedAsItWasFormatted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := SessionRef{
			PID:    rapid.Uint32Min(1).Draw(t, "pid"),
			Start:  time.UnixMicro(rapid.Int64Range(0, 4e15).Draw(t, "start")).UTC(),
			XID:    rapid.Uint64Min(1).Draw(t, "xid"),
			System: rapid.Uint64().Draw(t, "system"),
		}
		if rapid.Bool().Draw(t, "known") {
			want.Recovered = time.UnixMicro(rapid.Int64Range(0, 4e15).Draw(t, "recovered")).UTC()
		}
		if rapid.Bool().Draw(t, "placed") {
			want.Timeline, want.Written = rapid.Uint32Min(1).Draw(t, "timeline"), rapid.Uint64().Draw(t, "written")
		}
		if rapid.Bool().Draw(t, "living") {
			want.Started = time.UnixMicro(rapid.Int64Range(0, 4e15).Draw(t, "started")).UTC()
			want.Replayed = rapid.Uint64().Draw(t, "replayed")
		}
		if rapid.Bool().Draw(t, "marked") {
			want.Table = markertable.ID{Database: rapid.Uint32Min(1).Draw(t, "database"), Relation: rapid.Uint32Min(1).Draw(t, "relation")}
		}
		if want.bounded() != want && (want.XID < 1<<40 && want.Written < 1<<48 && want.Replayed < 1<<48) {
			t.Errorf("%q is cut, although its numbers are usual", want)
		}
		want = want.bounded()
		if got, err := ParseSessionRef(want.String()); got != want || err != nil {
			t.Errorf("%v: got %v, %v", want, got, err)
		}
		if len(want.String()) > txn.MaxSessionRef {
			t.Errorf("%q has %d bytes", want, len(want.String()))
		}
	})
}

func FuzzParseSessionRef(f *testing.F) {
	f.Add("pid=1234 start=2026-11-21T09:30:00.123456Z xid=789 system=7710685338195144677")
	f.Add("pid=1234 start=2026-11-21T09:30:00.123456Z xid=789 system=1 recovered=2026-11-01T00:00:00.000001Z")
	f.Add("pid=1234 start=2026-11-21T09:30:00.123456Z xid=789 system=1 timeline=0000001A written=1/3000068")
	f.Add("pid=1 start=0000-01-01T00:00:00.000000Z xid=1 system=0")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseSessionRef(text); err == nil && s.String() != text {
			t.Errorf("%q is read as %q", text, s)
		}
	})
}
