// Package excerpt shortens texts of others, such as names and settings, for error messages.
package excerpt

// maxLength bounds an excerpt, in bytes, without the dots at its end.
const maxLength = 80

// Of returns the beginning of a text, with dots if it was longer.
func Of(text string) string {
	if len(text) > maxLength {
		return text[:maxLength] + "..."
	}
	return text
}
