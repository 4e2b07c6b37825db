package tailbuf

import (
	"fmt"
	"strings"
	"testing"
)

func TestKeepsTheEnd(t *testing.T) {
	var b Buffer
	if got := b.String(); got != "it said nothing" {
		t.Errorf("empty: %q", got)
	}
	for i := range 10_000 {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	got := b.String()
	if !strings.HasSuffix(got, "line 9998\nline 9999") || len(got) > Size+len("it said:\n") {
		t.Errorf("%d bytes that end in %q", len(got), got[max(len(got)-30, 0):])
	}
}
