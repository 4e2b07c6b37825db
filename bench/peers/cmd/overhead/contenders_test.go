package main

import (
	"slices"
	"testing"
)

func TestContenders(t *testing.T) {
	known := make(map[string]*contender)
	for _, c := range all {
		if c.Key == "" || c.Name == "" || c.work == nil || known[c.Key] != nil {
			t.Errorf("%+v lacks something, or its key is not its own", c)
		}
		if c.Beside != "" {
			to := known[c.Beside]
			if to == nil || to.Beside != "" || !slices.Equal(to.callers, c.callers) {
				t.Errorf("%s is compared with %q, which must come before it, with as many callers, and be compared with none", c.Key, c.Beside)
			}
		}
		known[c.Key] = c
	}
}

// In each round everybody has a turn, and who is compared follows one another, in changing orders.
func TestTurns(t *testing.T) {
	rows := rowsOf(all, []int{1, 8})
	var want int
	for _, c := range all {
		want += max(len(c.callers), 2)
	}
	if len(rows) != want {
		t.Fatalf("%d rows, want %d", len(rows), want)
	}
	group := func(r *row) any {
		base := r.Beside
		if base == "" {
			base = r.Key
		}
		return [2]any{base, r.Workers}
	}
	orders := make(map[*row]bool)
	for range 50 {
		order := turns(rows)
		seen, groups := make(map[*row]bool), make(map[any]bool)
		for i, r := range order {
			if seen[r] || i > 0 && group(r) != group(order[i-1]) && groups[group(r)] {
				t.Fatalf("%s with %d workers has a second turn, or is apart from what it is compared with", r.Key, r.Workers)
			}
			seen[r], groups[group(r)] = true, true
		}
		if len(seen) != want {
			t.Fatalf("%d of %d rows have a turn", len(seen), want)
		}
		orders[order[0]] = true
	}
	if len(orders) < 2 {
		t.Error("the order is always the same")
	}
}
