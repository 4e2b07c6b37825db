package main

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// TestPlanted: the tests of the module in testdata all pass under go test. Under this program those
// fail that take locks wrongly, and the report names the kind and both places.
func TestPlanted(t *testing.T) {
	const root = "testdata/planted"
	plain := exec.Command("go", "test", "-count=1", "./...")
	plain.Dir = root
	if out, err := plain.CombinedOutput(); err != nil {
		t.Fatalf("go test alone: %v\n%s", err, out)
	}
	for name, reported := range map[string][]string{
		"recursion": {"Recursive locking", "recursion.go:11", "recursion.go:17"},
		"inversion": {"Inconsistent locking", "inversion.go:9", "inversion.go:11", "inversion.go:16", "inversion.go:18"},
		"sound":     nil,
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := run(root, &out, []string{"-count=1", "./" + name})
			exit := (*exec.ExitError)(nil)
			switch {
			case reported == nil && err != nil:
				t.Errorf("%v, want no report", err)
			case reported != nil && !errors.As(err, &exit):
				t.Errorf("%v, want a failure of go test", err)
			}
			for _, want := range reported {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not reported", want)
				}
			}
			if reported == nil && strings.Contains(out.String(), "POTENTIAL DEADLOCK") {
				t.Error("something is reported")
			}
			if t.Failed() {
				t.Logf("it printed:\n%s", &out)
			}
		})
	}
}
