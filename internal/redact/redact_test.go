package redact

import (
	"slices"
	"testing"
)

func TestRedact(t *testing.T) {
	long := string(slices.Repeat([]byte("é"), 400))
	for in, want := range map[string]string{
		"":                                 "",
		"ERROR: deadlock (SQLSTATE 40P01)": "ERROR: deadlock (SQLSTATE 40P01)",
		"no answer within 10s: dial tcp [::1]:5432: timeout": "no answer within 10s: dial tcp [::1]:5432: timeout",
		"a\x00b\nc\x1b[1md":                    "a b c [1md",
		"bad \xff utf8":                        "bad ? utf8",
		"postgres://app:s3cret@db:5432/x: no":  "postgres://app:***@db:5432/x: no",
		"http://u:p@w@h/commit?a=b: 500":       "http://u:***@h/commit?a=b: 500",
		"app:s3cret@tcp(127.0.0.1:3306)/x":     "app:***@tcp(127.0.0.1:3306)/x",
		"host=db password=s3cret dbname=x":     "host=db password=*** dbname=x",
		`cfg {"api_key": "s3 cret", "n": 1}`:   `cfg {"api_key": ***, "n": 1}`,
		"PGPASSWORD='s3 cret' psql":            "PGPASSWORD=*** psql",
		"Authorization: Bearer eyJhbGciOi.x-y": "Authorization: Bearer ***",
		long:                                   long[:296] + "...",
	} {
		if got := Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
	if got := Text(long); len(got) > MaxLen {
		t.Errorf("%d bytes", len(got))
	}
}
