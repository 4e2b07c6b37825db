// Package textutil shortens texts and joins their lines.
package textutil

import (
	"strings"
	"unicode/utf8"
)

// Limit returns the beginning of s: at most n bytes, cut between two characters.
func Limit(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for back := 0; back < utf8.UTFMax && n > 0 && !utf8.RuneStart(s[n]); back++ {
		n--
	}
	return s[:n]
}

// Excerpt returns the beginning of s, for error messages: at most n bytes, and dots if s is longer.
func Excerpt(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Limit(s, n) + "..."
}

// OneLine replaces each run of white space, including line breaks, by one blank.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
