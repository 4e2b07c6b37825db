package postgres

import (
	"strings"
	"unicode/utf8"
)

// maxSummary bounds what is shown of a statement, in bytes.
const maxSummary = 100

// summarizeStatement shortens a statement for people. Texts in it are left out: a statement of
// somebody else may hold a password.
func summarizeStatement(statement string) string {
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

// maskedText stands for a text.
const maskedText = "'...'"

// token gives the length of what a statement begins with, and what is shown of it.
// Where it cannot be told where a text ends, that is the rest.
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
			n = len(s) // a backslash may have hidden its end
		}
		return n, maskedText
	case s[0] == '$':
		if tag := dollarTag(s); tag != "" {
			return until(s, len(tag), tag), maskedText
		}
	}
	return 1, s[:1]
}

// lineComment gives the length of a comment that ends with its line.
func lineComment(s string) int {
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		return i + 1
	}
	return len(s)
}

// until gives the length of s up to the end of the first mark after from.
func until(s string, from int, mark string) int {
	if i := strings.Index(s[from:], mark); i >= 0 {
		return from + i + len(mark)
	}
	return len(s)
}

// dollarTag gives the tag with which a text between tags begins, "" if none does:
// $1 is a parameter.
func dollarTag(s string) string {
	end := strings.IndexByte(s[1:], '$') + 2
	if end < 2 || end > 2 && '0' <= s[1] && s[1] <= '9' || strings.ContainsAny(s[1:end-1], " \t\r\n'\"(),;=") {
		return ""
	}
	return s[:end]
}
