package postgres

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/participant/postgres/internal/sqltext"
)

// noises may stand between two words; each has a character that would end a quoted text, a line
// or a statement elsewhere.
var noises = []string{" ", " ", " ", "\n", "\r", "\t", "/* ; */", "/* /* ' */ */", "-- '\n", "-- ;\r", "-- $$ \"\n"}

// literals contain the end of a transaction, or seem to.
var literals = []string{
	"'a'", "'it''s'", `'\'`, `E'\''`, "'; COMMIT; --'", `E'\'; COMMIT; --'`, "$$; COMMIT; $$", "$a$ ; COMMIT; $$ $a$", `U&'\0061'`,
	"E'a'\n'\\' || '", "E'a' -- '\n '\\' || '", "E'a' '\\' || '", "'a'\n'\\'", "E'a'\n/**/'\\'", "1::text", "$$'$$", "''", "e'\\\\'",
}

// phrases are statements in words, with %d for a number and ? for a literal.
var phrases = []string{
	"SELECT ?", "SELECT ? , ?", `SELECT ? AS "; COMMIT; --"`, "SELECT CASE WHEN true THEN ? END", "SELECT 1 AS end", "SAVEPOINT commit", "ROLLBACK TO commit",
	"CREATE TABLE t%d ()", "CREATE OR REPLACE VIEW begin AS SELECT 1 AS atomic", "CREATE TABLE begin ( atomic text DEFAULT ? )", "CREATE DOMAIN atomic text",
	"CREATE FUNCTION f%d () RETURNS int BEGIN ATOMIC SELECT 1 ; SELECT CASE WHEN true THEN 1 END AS end ; SELECT 2 END ; END",
	"CREATE OR REPLACE FUNCTION f%d () RETURNS text RETURN ?", "CREATE OR REPLACE PROCEDURE p%d ( begin atomic ) LANGUAGE sql AS ?",
	"CREATE OR REPLACE PROCEDURE p%d () BEGIN ATOMIC END", "CREATE FUNCTION begin ( a int , end int ) RETURNS int LANGUAGE sql AS ?",
	"COMMIT", "END", "ROLLBACK", "ABORT", "COMMIT AND CHAIN", "ROLLBACK WORK AND CHAIN", "PREPARE TRANSACTION 'typed%d'", "BEGIN", "START TRANSACTION", "SET TRANSACTION READ WRITE",
}

// randomText returns a random text of some statements.
func randomText(r *rand.Rand) string {
	var b strings.Builder
	some := func(list []string) string { return list[r.IntN(len(list))] }
	for range 1 + r.IntN(4) {
		for word := range strings.FieldsSeq(some(phrases)) {
			switch {
			case word == "?":
				word = some(literals)
			case strings.Contains(word, "%d"):
				word = fmt.Sprintf(word, r.IntN(1e9))
			}
			b.WriteString(word + some(noises))
		}
		b.WriteString(";")
	}
	return b.String()
}

// TestTxControlIsWhatTheServerReads: no random text that is accepted as harmless ends the
// transaction.
func TestTxControlIsWhatTheServerReads(t *testing.T) {
	bank := newBank(t)
	ctx := t.Context()
	cfg, err := pgx.ParseConfig(bank.dsn)
	check(t, err)
	cfg.RuntimeParams["lock_timeout"] = "100ms" // for transactions that a text has prepared
	conn, err := pgx.ConnectConfig(ctx, cfg)
	check(t, err)
	defer func() { check(t, conn.Close(ctx)) }()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	harmless, ended := 0, 0
	for n := range 2000 {
		text, escapes := randomText(r), n%2 == 1
		setting := "on"
		if escapes {
			setting = "off"
		}
		check(t, conn.PgConn().Exec(ctx, "SET standard_conforming_strings = "+setting).Close())
		_, err := conn.Exec(ctx, "BEGIN")
		check(t, err)
		var before, after string
		check(t, conn.QueryRow(ctx, "SELECT pg_current_xact_id()::text").Scan(&before))
		_, failed := conn.PgConn().Exec(ctx, text).ReadAll()
		over := conn.PgConn().TxStatus() == statusIdle
		if !over && failed == nil {
			check(t, conn.QueryRow(ctx, "SELECT pg_current_xact_id()::text").Scan(&after))
			over = after != before
		}
		_, err = conn.Exec(ctx, "ROLLBACK")
		check(t, err)
		var status string
		check(t, conn.QueryRow(ctx, "SELECT pg_xact_status($1::text::xid8)", before).Scan(&status))
		over = over || status == xactCommitted
		refused := sqltext.RejectTxControl(text, false, escapes) != nil
		switch {
		case over && !refused:
			t.Errorf("seed %d: with standard_conforming_strings %s it ended the transaction, and is sent: %q", seed, setting, text)
		case over:
			ended++
		case failed == nil && !refused:
			harmless++
		}
		finishAll(t, conn) // it has locks
	}
	if harmless < 100 || ended < 100 {
		t.Errorf("%d harmless and %d that end it: too few to say anything", harmless, ended)
	}
	t.Logf("%d harmless, %d that end it", harmless, ended)
}

// finishAll rolls back the transactions that the texts have prepared.
func finishAll(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT gid FROM pg_prepared_xacts WHERE gid LIKE 'typed%' AND database = current_database()")
	check(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	check(t, err)
	for _, name := range names {
		_, err := conn.Exec(t.Context(), "ROLLBACK PREPARED '"+name+"'")
		check(t, err)
	}
}
