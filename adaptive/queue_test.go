package adaptive

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestJobQueue compares the queue with a list: jobs come, leave in order, and leave from anywhere.
// None is lost, none is there twice.
func TestJobQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l, other jobQueue
		var want []*job
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				if j := l.pop(); len(want) > 0 {
					if j != want[0] {
						t.Fatalf("took %p, not %p", j, want[0])
					}
					want = want[1:]
				} else if j != nil {
					t.Fatalf("took %p out of nothing", j)
				}
			case 1:
				if len(want) > 0 {
					i := rapid.IntRange(0, len(want)-1).Draw(t, "who leaves")
					j := want[i]
					want = slices.Delete(want, i, i+1)
					if other.remove(j) || !l.remove(j) || l.remove(j) {
						t.Fatal("a job leaves the line in which it waits, once")
					}
				}
			default:
				j := &job{}
				l.push(j)
				want = append(want, j)
			}
			var got []*job
			for j := l.first; j != nil && len(got) <= len(want); j = j.next {
				got = append(got, j)
			}
			if l.n != len(want) || !slices.Equal(got, want) {
				t.Fatalf("the line has %d jobs, of which %d are found; want %d", l.n, len(got), len(want))
			}
		}
	})
}
