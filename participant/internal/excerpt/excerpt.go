// Package excerpt shortens texts of others, such as names and settings, for error messages.
package excerpt

import "github.com/txmgr/txmgr/internal/textutil"

// Of returns the beginning of a text, at most 80 bytes, with dots if it was longer.
func Of(text string) string { return textutil.Excerpt(text, 80) }
