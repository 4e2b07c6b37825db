package breaker

import (
	"testing"
	"time"
)

func TestBreaker(t *testing.T) {
	const sec = time.Second
	b := &Breaker{Threshold: 3, Backoff: Backoff{Base: sec, Max: 4 * sec, Rand: func() float64 { return 1 }}}
	want := func(what string, now time.Duration, ready bool, next time.Duration) {
		t.Helper()
		if got := b.Ready(now); got != ready || b.NextProbe() != next {
			t.Fatalf("%s: ready(%v) = %v, next probe %v; want %v, %v", what, now, got, b.NextProbe(), ready, next)
		}
	}
	b.Failure(0, false)
	b.Failure(0, false)
	b.Success()
	b.Failure(0, false)
	b.Failure(0, false)
	want("two in a row", 0, true, 0)
	b.Failure(0, false)
	want("three in a row", 0, false, sec)
	b.Failure(0, false)
	want("a straggler's failure changes nothing", 0, false, sec)
	want("time for a probe", sec, true, sec)
	if !b.Begin() {
		t.Fatal("the first call of an open breaker is not a probe")
	}
	want("one probe at a time", sec, false, sec)
	b.Failure(sec, true)
	want("failed probe", sec, false, 3*sec)
	b.Begin()
	b.Failure(3*sec, true)
	want("failed probe", 3*sec, false, 7*sec)
	b.Begin()
	b.Failure(7*sec, true)
	want("at most four seconds", 7*sec, false, 11*sec)
	b.AllowProbe(8 * sec)
	want("a hint", 8*sec, true, 8*sec)
	b.Begin()
	b.CancelProbe(true)
	want("no verdict: the next may probe", 8*sec, true, 8*sec)
	b.Begin()
	b.Success()
	want("closed", 8*sec, true, 0)
	if b.Begin() {
		t.Fatal("a call of a closed breaker is a probe")
	}
}
