package model

import (
	"strings"
	"sync"
	"testing"
)

// TestSearches runs the searches, as many at once as there are processors, and logs a table of them.
func TestSearches(t *testing.T) {
	if missing := missingPrograms(); len(missing) > 0 {
		t.Fatalf("programs are missing; run make deps, or install the packages (Debian's names): %s", strings.Join(missing, " "))
	}
	var mu sync.Mutex
	results := map[int]result{}
	t.Cleanup(func() { t.Log("\n" + table(results)) })
	for i, s := range searches {
		if s.long && testing.Short() {
			continue
		}
		t.Run(s.model+"/"+s.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			r, err := s.run(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			results[i] = r
			mu.Unlock()
			switch {
			case r.found != s.finds && r.found != "":
				t.Errorf("found %q, want %q; the last steps:\n%s", r.found, s.finds, s.steps(t.Context(), dir, 80))
			case r.found != s.finds:
				t.Errorf("found nothing, want %q", s.finds)
			case r.found == "" && !r.complete:
				t.Errorf("the search is not complete:\n%s", r.output)
			}
		})
	}
}

// TestNames: every search has a name of its own, and those with a mistake find something.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range searches {
		if name := s.model + "/" + s.name; seen[name] {
			t.Errorf("%s is there twice", name)
		} else {
			seen[name] = true
		}
		if strings.HasPrefix(s.name, "mistake: ") && s.finds == "" {
			t.Errorf("%s/%s: a mistake that nothing has to find", s.model, s.name)
		}
	}
}

// TestParse: an output that says that the search stopped early is not taken for a complete one.
func TestParse(t *testing.T) {
	const whole = "State-vector 108 byte, depth reached 450, errors: 0\n  2619848 states, stored\npan: elapsed time 17.2 seconds\n"
	for name, c := range map[string]struct {
		output, found string
		complete      bool
	}{
		"complete":      {whole, "", true},
		"nothing":       {"", "", false},
		"depth":         {"error: max search depth too small\n" + whole, "", false},
		"memory":        {"pan: reached -DMEMLIM bound\n" + whole, "", false},
		"assertion":     {"pan:1: assertion violated  !(not_atomic) (at depth 381)\nWarning: Search not completed\n" + whole, "not_atomic", false},
		"cycle":         {"pan:1: acceptance cycle (at depth 1849)\nWarning: Search not completed\n" + whole, stays, false},
		"end not valid": {"pan:1: invalid end state (at depth 12)\nWarning: Search not completed\n" + whole, "invalid end state", false},
	} {
		r := parse(c.output)
		if r.found != c.found || r.complete != c.complete {
			t.Errorf("%s: found %q, complete %v", name, r.found, r.complete)
		}
		if c.complete && (r.states != 2619848 || r.depth != 450 || r.took.Seconds() != 17.2) {
			t.Errorf("%s: %d states, depth %d, %v", name, r.states, r.depth, r.took)
		}
	}
}
