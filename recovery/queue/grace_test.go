package queue

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
	"pgregory.net/rapid"
)

// idOf makes the n-th id, n from 1.
func idOf(n int) txn.ID {
	var id txn.ID
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

// TestGrace checks order, completeness, and the two bounds of the wait.
func TestGrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := Grace{Wait: time.Second}
		pushed := make(map[txn.ID]time.Duration)
		now, n, out := time.Duration(0), 0, 1
		take := func() {
			for {
				ids := g.Due(nil, now)
				if len(ids) == 0 {
					return
				}
				for _, id := range ids {
					if id != idOf(out) {
						t.Fatalf("got %v, want %v", id, idOf(out))
					}
					out++
					if waited := now - pushed[id]; waited < g.Wait {
						t.Fatalf("%v waited %v only", id, waited)
					}
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			for range rapid.IntRange(0, 300).Draw(t, "ids") {
				n++
				pushed[idOf(n)] = now
				g.Push(idOf(n), now)
			}
			now += time.Duration(rapid.IntRange(0, 400).Draw(t, "ms")) * time.Millisecond
			take()
			for i := out; i <= n; i++ {
				if late := now - pushed[idOf(i)] - g.Wait; late >= GraceWindow {
					t.Fatalf("%v is %v late", idOf(i), late)
				}
			}
			if g.n != n-out+1 {
				t.Fatalf("n = %d, want %d", g.n, n-out+1)
			}
		}
		now += 2 * time.Second
		take()
		if _, ok := g.Next(); ok || out != n+1 {
			t.Fatalf("%d of %d came out", out-1, n)
		}
	})
}
