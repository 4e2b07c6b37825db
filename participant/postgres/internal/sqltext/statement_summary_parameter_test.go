package sqltext

import "testing"

// TestParameterIsNoTag: a number between two dollar signs is a parameter, for each digit, and
// begins no quoted text.
func TestParameterIsNoTag(t *testing.T) {
	for statement, want := range map[string]string{
		"SELECT $0$x's3cret'":     "SELECT $0$x'...'",
		"SELECT $9$x's3cret'":     "SELECT $9$x'...'",
		"SELECT $a$s3cret$a$ + 1": "SELECT '...' + 1",
		"SELECT $_9$s3cret$_9$":   "SELECT '...'",
	} {
		if got := Summarize(statement); got != want {
			t.Errorf("%q: got %q, want %q", statement, got, want)
		}
	}
}
