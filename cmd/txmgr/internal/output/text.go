package output

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/txmgr/txmgr/txn"
)

// Sanitize makes a text of any origin safe for one line of a terminal: control characters and
// invalid UTF-8 are written as escapes.
func Sanitize(s string) string {
	if !strings.ContainsFunc(s, unprintable) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteByte(' ')
		case unprintable(r) && r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		case unprintable(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		i += n
	}
	return b.String()
}

// unprintable also reports the invisible characters that change the direction of writing: with them
// a line looks like another text.
func unprintable(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }

// OrDash returns a placeholder for an empty text, so that every cell has a word.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Since formats a duration with at most two units: 850ms, 12.3s, 4m12s, 3h5m, 2d7h.
func Since(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 24*time.Hour:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	d = d.Round(time.Hour)
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}

// Plural returns "1 branch", "2 branches".
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Normalize gives a transaction the form on which programs rely: lists and maps are never null.
func Normalize(t txn.Info) txn.Info {
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	if t.Branches == nil {
		t.Branches = []txn.BranchInfo{}
	}
	return t
}
