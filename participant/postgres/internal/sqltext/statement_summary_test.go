package sqltext

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSummarizeOmitsQuotedTexts(t *testing.T) {
	for statement, want := range map[string]string{
		"":                                      "",
		"UPDATE account\n\tSET balance = $1":    "UPDATE account SET balance = $1",
		"ALTER ROLE me PASSWORD 's3cret'":       "ALTER ROLE me PASSWORD '...'",
		"SELECT 'it''s s3cret', 'a'":            "SELECT '...''...', '...'",
		`SELECT E'a\'s3cret', 1`:                "SELECT E'...'",
		`SELECT 'a\' || 's3cret'`:               "SELECT '...'",
		"SELECT $$s3cret$$, $1":                 "SELECT '...', $1",
		"SELECT $a$s3cret $$ $a$, 2":            "SELECT '...', 2",
		"SELECT 's3cret cut off":                "SELECT '...'",
		"-- don't\nSELECT 's3cret'":             "SELECT '...'",
		"/* don't */ SELECT 's3cret'":           "SELECT '...'",
		`SELECT "it's" FROM t WHERE x='s3cret'`: `SELECT "it's" FROM t WHERE x='...'`,
		"SELECT 1 /* s3cret":                    "SELECT 1",
		strings.Repeat("é", 60):                 strings.Repeat("é", 48) + "...",
	} {
		if got := Summarize(statement); got != want {
			t.Errorf("%q: got %q, want %q", statement, got, want)
		}
	}
}

func FuzzSummarize(f *testing.F) {
	f.Add("SELECT ", "s3cret")
	f.Add("SELECT $1, E'\\'", "x")
	f.Add(`"`, "'$$")
	f.Fuzz(func(t *testing.T, before, text string) {
		got := Summarize(before)
		if len(got) > maxSummary || !utf8.ValidString(got) {
			t.Errorf("%q became %q", before, got)
		}
		secret := fmt.Sprintf("zq9%x", text)
		quoted, err := Literal(secret)
		if err != nil || strings.ContainsAny(before, `"'$-/`) || strings.Contains(before, "zq9") {
			return // a quoted text may be open before it
		}
		if got := Summarize("SELECT " + before + quoted); strings.Contains(got, "zq9") {
			t.Errorf("%q shows %q", got, secret)
		}
	})
}
