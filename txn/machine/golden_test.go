package machine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// checkGolden compares with a reviewed file; a new one is written beside it.
func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	want, err := os.ReadFile(path)
	if diff := cmp.Diff(string(want), got); err != nil || diff != "" {
		fresh := filepath.Join(t.ArtifactDir(), name)
		_ = os.WriteFile(fresh, []byte(got), 0o644)
		t.Errorf("%s differs (%v); what was got is in %s:\n%s", path, err, fresh, diff)
	}
}

func sameEffects(a, b Effects) bool { return cmp.Equal(a, b, cmpopts.EquateEmpty()) }
