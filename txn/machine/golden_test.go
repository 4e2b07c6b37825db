package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// checkGolden compares with a reviewed file; a new one is written beside it.
func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	want, err := os.ReadFile(path)
	if err != nil || string(want) != got {
		fresh := filepath.Join(t.ArtifactDir(), name)
		_ = os.WriteFile(fresh, []byte(got), 0o644)
		t.Errorf("%s differs (%v); what was got is in %s:\n%s", path, err, fresh, lineDiff(string(want), got))
	}
}

// lineDiff names the first lines that differ, in words that do not change from one build
// to the next, as those of [cmp.Diff] do.
func lineDiff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	if len(w) != len(g) {
		return cmp.Diff(w, g)
	}
	var text strings.Builder
	for i, n := 0, 0; i < len(w) && n < 50; i++ {
		if w[i] != g[i] {
			fmt.Fprintf(&text, "line %d: got %s; want %s\n", i+1, g[i], w[i])
			n++
		}
	}
	return text.String()
}

func sameEffects(a, b Effects) bool { return cmp.Equal(a, b, cmpopts.EquateEmpty()) }
