package queue

import (
	"testing"

	"pgregory.net/rapid"
)

func TestFIFO(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q FIFO[int]
		var model []int
		next := 0
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			n := rapid.IntRange(-150, 150).Draw(t, "n")
			for ; n > 0; n-- {
				q.Push(next)
				model = append(model, next)
				next++
			}
			for ; n < 0 && len(model) > 0; n++ {
				if p := q.Peek(); p != model[0] {
					t.Fatalf("peek %d, want %d", p, model[0])
				}
				if p := q.Pop(); p != model[0] {
					t.Fatalf("pop %d, want %d", p, model[0])
				}
				model = model[1:]
			}
			if q.Len() != len(model) {
				t.Fatalf("len %d, want %d", q.Len(), len(model))
			}
		}
	})
}
