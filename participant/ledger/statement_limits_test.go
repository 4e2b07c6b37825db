package ledger

import (
	"strings"
	"testing"
)

// TestStatementsAtTheirLimits: nothing is an amount, and the longest names are names.
func TestStatementsAtTheirLimits(t *testing.T) {
	for _, text := range []string{
		"set a 0", "move a b 0", "add a 0",
		"add a 9223372036854775807", "add a -9223372036854775808",
		"get " + strings.Repeat("a", maxAccount),
	} {
		if got, err := parse(text); err != nil || len(got) != 1 {
			t.Errorf("%.30q: %v, %v", text, got, err)
		}
	}
}
