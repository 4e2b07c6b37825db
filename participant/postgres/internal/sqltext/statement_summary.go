package sqltext

import (
	"strings"
	"unicode/utf8"
)

// maxSummary bounds the summary of a statement, in bytes.
const maxSummary = 100

// Summarize shortens a statement for the operator. Quoted texts are left out: the
// statement of another client may contain a password.
func Summarize(statement string) string {
	var b strings.Builder
	for rest := statement; rest != ""; {
		n, shown := token(rest, strings.HasSuffix(b.String(), "e") || strings.HasSuffix(b.String(), "E"))
		b.WriteString(shown)
		rest = rest[n:]
		if b.Len() > 4*maxSummary {
			break
		}
	}
	text := strings.ToValidUTF8(strings.Join(strings.Fields(b.String()), " "), "?")
	if len(text) <= maxSummary {
		return text
	}
	cut := maxSummary - 3
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}

// maskedText replaces a quoted text.
const maskedText = "'...'"

// token returns the length of the first token, and the text that is shown for it. If the end of
// a quoted text cannot be determined, the token is the rest of the statement.
func token(s string, escapes bool) (n int, shown string) {
	switch {
	case strings.HasPrefix(s, "--"):
		return lineComment(s), " "
	case strings.HasPrefix(s, "/*"):
		return until(s, 2, "*/"), " "
	case s[0] == '"':
		n = until(s, 1, `"`)
		return n, s[:n]
	case s[0] == '\'':
		n = until(s, 1, "'")
		if escapes || strings.Contains(s[:n], `\`) {
			n = len(s) // the backslash may have escaped the closing quote
		}
		return n, maskedText
	case s[0] == '$':
		if tag := dollarTag(s); tag != "" {
			return until(s, len(tag), tag), maskedText
		}
	}
	return 1, s[:1]
}

// lineComment returns the length of a comment that ends with its line.
func lineComment(s string) int {
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		return i + 1
	}
	return len(s)
}

// until returns the length of s up to the end of the first mark after from, or all of s.
func until(s string, from int, mark string) int {
	if i := strings.Index(s[from:], mark); i >= 0 {
		return from + i + len(mark)
	}
	return len(s)
}

// dollarTag returns the tag that begins a dollar-quoted text, "" if there is none: $1 is a
// parameter.
func dollarTag(s string) string {
	end := strings.IndexByte(s[1:], '$') + 2
	if end < 2 || end > 2 && '0' <= s[1] && s[1] <= '9' || strings.ContainsAny(s[1:end-1], " \t\r\n'\"(),;=") {
		return ""
	}
	return s[:end]
}
