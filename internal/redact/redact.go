package redact

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxLen limits every text of a participant that is kept or reported, in bytes.
const MaxLen = 300

// secretPatterns match the secrets that drivers are known to put into errors: user and
// password of a URL or a MariaDB address, settings by name, bearer tokens.
var secretPatterns = []struct {
	re   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`(://[^\s:/@]*):[^\s/]*@`), "$1:***@"},
	{regexp.MustCompile(`([\w.-]+):\S*@((?:tcp|unix)\()`), "$1:***@$2"},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}`), "$1 ***"},
	{regexp.MustCompile(`(?i)\b(\w*(?:password|passwd|pwd|secret|token|api[_-]?key))(["']?\s*[=:]\s*)("[^"]*"?|'[^']*'?|[^\s,;&]+)`), "$1$2***"},
}

// Text makes a participant's text fit to be shown: no secrets, no control
// characters, valid UTF-8, at most [MaxLen] bytes.
func Text(s string) string {
	s = bounded(s)
	for _, x := range secretPatterns {
		s = x.re.ReplaceAllString(s, x.with)
	}
	return Printable(s)
}

// bounded limits the work, and makes the text valid UTF-8.
func bounded(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), 8*MaxLen)], "?")
}

// Printable is [Text] for a text without secrets that the operator will copy.
func Printable(s string) string {
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, bounded(s))
	if len(s) <= MaxLen {
		return s
	}
	cut := MaxLen - len("...")
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}
