package breaker

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestBackoffCeiling(t *testing.T) {
	b := Backoff{Base: 100 * time.Millisecond, Max: 30 * time.Second}
	for n, want := range map[int]time.Duration{
		1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 5: 1600 * time.Millisecond,
		9: 25600 * time.Millisecond, 10: 30 * time.Second, 1000: 30 * time.Second,
	} {
		if got := b.ceiling(n); got != want {
			t.Errorf("ceiling(%d) = %v, want %v", n, got, want)
		}
	}
	huge := Backoff{Base: 1 << 62, Max: 1<<63 - 1}
	if got := huge.ceiling(5); got != huge.Max {
		t.Errorf("overflowing ceiling = %v, want %v", got, huge.Max)
	}
}

// TestBackoffSpread checks that jitter is even over the whole range.
func TestBackoffSpread(t *testing.T) {
	b := Backoff{Base: 100 * time.Millisecond, Max: 30 * time.Second, Rand: rand.New(rand.NewPCG(7, 7)).Float64}
	const draws, ceiling = 10_000, 800 * time.Millisecond // n = 4
	var full, half [10]int
	for range draws {
		full[b.FullJitter(4)*10/ceiling]++
		d := b.HalfJitter(4)
		if d < ceiling/2 || d > ceiling {
			t.Fatalf("half = %v, want between %v and %v", d, ceiling/2, ceiling)
		}
		half[(d-ceiling/2)*10/(ceiling/2+1)]++
	}
	for i := range 10 {
		for _, n := range []int{full[i], half[i]} {
			if n < draws/10*8/10 || n > draws/10*12/10 {
				t.Errorf("tenth %d has %d of %d draws (full), %d (half)", i, full[i], draws, half[i])
			}
		}
	}
}
