package textutil

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestShortTextsStay(t *testing.T) {
	for _, s := range []string{"", "abcd", "é€", "\xff\xff"} {
		if got := Limit(s, 5); got != s {
			t.Errorf("Limit(%q) = %q", s, got)
		}
		if got := Excerpt(s, 5); got != s {
			t.Errorf("Excerpt(%q) = %q", s, got)
		}
	}
}

func TestLimitCutsBetweenCharacters(t *testing.T) {
	for s, want := range map[string]string{"abcdef": "abcde", "abc€f": "abc", "ab€": "ab€", "abcd\U0001F600": "abcd", strings.Repeat("\x80", 9): "\x80"} {
		if got := Limit(s, 5); got != want {
			t.Errorf("Limit(%q) = %q, want %q", s, got, want)
		}
	}
	if got := Excerpt("abc€f", 5); got != "abc..." {
		t.Errorf("Excerpt: %q", got)
	}
}

func TestOneLine(t *testing.T) {
	if got := OneLine(" a\r\n\tb  c\n"); got != "a b c" {
		t.Errorf("OneLine: %q", got)
	}
}

// TestLimitIsAPrefix of at most n bytes, which is valid if the text is.
func TestLimitIsAPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, n := rapid.String().Draw(t, "s"), rapid.IntRange(0, 40).Draw(t, "n")
		got := Limit(s, n)
		if !strings.HasPrefix(s, got) || len(got) > n || !utf8.ValidString(got) || len(got) < min(len(s), n)-3 {
			t.Errorf("Limit(%q, %d) = %q", s, n, got)
		}
	})
}
