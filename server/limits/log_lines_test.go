package limits

import (
	"testing"
	"time"
)

func TestLogLines(t *testing.T) {
	q, now := NewLogLines(10), time.Unix(1000, 0)
	said := 0
	for range 25 {
		if ok, _ := q.Allow(now); ok {
			said++
		}
	}
	if said != 10 {
		t.Errorf("said %d", said)
	}
	if ok, suppressed := q.Allow(now.Add(time.Second)); !ok || suppressed != 15 {
		t.Errorf("a second later: %t, %d", ok, suppressed)
	}
	if _, suppressed := q.Allow(now.Add(time.Second)); suppressed != 0 {
		t.Errorf("counted twice: %d", suppressed)
	}
}
