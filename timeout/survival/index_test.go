package survival

import (
	"errors"
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestNewIndex(t *testing.T) {
	const (
		ns  = time.Nanosecond
		ms  = time.Millisecond
		top = time.Duration(math.MaxInt64)
	)
	for _, tt := range []struct {
		name                         string
		timeout, untilNext, interval time.Duration
		want                         int64
	}{
		{"shorter than the time until next", 10 * ms, 60 * ms, 100 * ms, 1},
		{"the time until next", 60 * ms, 60 * ms, 100 * ms, 1},
		{"just longer than the time until next", 60*ms + ns, 60 * ms, 100 * ms, 2},
		{"both remainders", 300 * ms, 60 * ms, 100 * ms, 4},
		{"whole intervals after the time until next", 260 * ms, 60 * ms, 100 * ms, 3},
		{"a multiple, invocation due now", 300 * ms, 0, 100 * ms, 4},
		{"a multiple, invocation just over", 300 * ms, 100 * ms, 100 * ms, 3},
		{"one interval, invocation just over", 100 * ms, 100 * ms, 100 * ms, 1},
		{"one interval, invocation due now", 100 * ms, 0, 100 * ms, 2},
		{"one nanosecond, invocation due now", ns, 0, 100 * ms, 2},
		{"one nanosecond, invocation just over", ns, 100 * ms, 100 * ms, 1},
		{"one nanosecond of everything", ns, ns, ns, 1},
		{"a year", 365 * 24 * time.Hour, 0, 100 * ms, 315_360_001},
		{"the longest timeout", top, 0, time.Second, 9_223_372_037 + 1},
		{"the longest interval", ns, top, top, 1},
		{"the longest of both, invocation due now", top, 0, top, 2},
		{"the largest index", top, ns, ns, math.MaxInt64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := NewIndex(tt.timeout, tt.untilNext, tt.interval)
			if err != nil {
				t.Fatal(err)
			}
			if want := (Index{Survival: tt.want}); got != want {
				t.Errorf("NewIndex(%v, %v, %v) = %v, want %v", tt.timeout, tt.untilNext, tt.interval, got, want)
			}
		})
	}
}

func TestNewIndexRefuses(t *testing.T) {
	for _, tt := range []struct {
		name                         string
		timeout, untilNext, interval time.Duration
		want                         error
	}{
		{"no timeout", 0, 0, 1, ErrTimeout},
		{"negative timeout", -1, 0, 1, ErrTimeout},
		{"most negative timeout", math.MinInt64, 0, 1, ErrTimeout},
		{"no interval", 1, 0, 0, ErrInterval},
		{"negative interval", 1, 0, -1, ErrInterval},
		{"negative time until next", 1, -1, 1, ErrUntilNext},
		{"time until next beyond the interval", 1, 2, 1, ErrUntilNext},
		{"one more than fits", math.MaxInt64, 0, 1, ErrOverflow},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := NewIndex(tt.timeout, tt.untilNext, tt.interval)
			if !errors.Is(err, tt.want) {
				t.Errorf("NewIndex(%d, %d, %d) = %v, %v; want error %v",
					tt.timeout, tt.untilNext, tt.interval, got, err, tt.want)
			}
		})
	}
}

// The invocation with the number Survival comes at untilNext + (Survival-1)*interval: never before the timeout, and less
// than one interval after it.
func TestNewIndexIsOnTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		interval := rapid.Int64Range(1, math.MaxInt64).Draw(t, "interval")
		if rapid.Bool().Draw(t, "short interval") {
			interval = rapid.Int64Range(1, 1000).Draw(t, "interval")
		}
		untilNext := rapid.Int64Range(0, interval).Draw(t, "untilNext")
		timeout := rapid.OneOf(
			rapid.Int64Range(1, math.MaxInt64),
			rapid.Int64Range(1, interval),
			rapid.Map(rapid.Int64Range(0, math.MaxInt64/interval), func(n int64) int64 { return max(1, n*interval) }),
		).Draw(t, "timeout")

		i, err := NewIndex(time.Duration(timeout), time.Duration(untilNext), time.Duration(interval))
		if errors.Is(err, ErrOverflow) && interval == 1 {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		at := new(big.Int).Mul(big.NewInt(i.Survival-1), big.NewInt(interval))
		at.Add(at, big.NewInt(untilNext))
		late := at.Sub(at, big.NewInt(timeout))
		if i.Survival < 1 || late.Sign() < 0 || late.Cmp(big.NewInt(interval)) >= 0 {
			t.Fatalf("index %v ends the transaction %v ns after its timeout", i, late)
		}
	})
}

func TestIndexAges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i := Index{Survival: rapid.Int64Range(1, 1<<40).Draw(t, "survival")}
		global := Tick(rapid.Uint64Range(0, 1<<60).Draw(t, "global"))
		n := rapid.Int64Range(0, i.Survival).Draw(t, "n")
		aged := i.Aged(n)
		if aged.Survival != i.Survival || aged.Remaining() != i.Survival-n {
			t.Fatalf("%v aged by %d is %v", i, n, aged)
		}
		if got, want := aged.Hash(global+Tick(n)), i.Hash(global); got != want {
			t.Fatalf("hash of %v changed from %d to %d", i, want, got)
		}
		nascent := Index{Survival: i.Survival - n}
		if !nascent.Equal(aged) || !aged.Equal(nascent) || nascent.Hash(global) != aged.Hash(global) {
			t.Fatalf("%v and %v have the same left and are not equal", nascent, aged)
		}
		if other := (Index{Survival: nascent.Survival + 1}); other.Equal(aged) || other.Hash(global) == aged.Hash(global) {
			t.Fatalf("%v and %v have not the same left and are equal", other, aged)
		}
	})
}

func TestHashOutOfRange(t *testing.T) {
	for _, tt := range []struct {
		index  Index
		global Tick
		want   Tick
	}{
		{Index{}, 3, 3},
		{Index{1, 4}, 3, 0},
		{Index{1, 5}, 3, 0},
		{Index{0, math.MaxInt64}, 3, 0},
		{Index{1, 0}, math.MaxUint64 - 1, math.MaxUint64},
		{Index{1, 0}, math.MaxUint64, math.MaxUint64},
		{Index{math.MaxInt64, 0}, math.MaxUint64, math.MaxUint64},
	} {
		if got := tt.index.Hash(tt.global); got != tt.want {
			t.Errorf("%v at %d hashes to %d, want %d", tt.index, tt.global, got, tt.want)
		}
	}
}
