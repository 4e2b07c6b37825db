package recovery

import (
	"slices"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
	"pgregory.net/rapid"
)

func TestBackoffCeiling(t *testing.T) {
	b := backoff{base: 100 * time.Millisecond, max: 30 * time.Second}
	for n, want := range map[int]time.Duration{
		1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 5: 1600 * time.Millisecond,
		9: 25600 * time.Millisecond, 10: 30 * time.Second, 1000: 30 * time.Second,
	} {
		if got := b.ceiling(n); got != want {
			t.Errorf("ceiling(%d) = %v, want %v", n, got, want)
		}
	}
	huge := backoff{base: 1 << 62, max: 1<<63 - 1}
	if got := huge.ceiling(5); got != huge.max {
		t.Errorf("overflowing ceiling = %v, want %v", got, huge.max)
	}
}

// TestBackoffSpread checks that jitter is even over the whole range.
func TestBackoffSpread(t *testing.T) {
	b := backoff{base: 100 * time.Millisecond, max: 30 * time.Second, rand: seeded(7)}
	const draws, ceiling = 10_000, 800 * time.Millisecond // n = 4
	var full, half [10]int
	for range draws {
		full[b.fullJitter(4)*10/ceiling]++
		d := b.halfJitter(4)
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

func TestBreaker(t *testing.T) {
	const sec = time.Second
	b := &breaker{threshold: 3, backoff: backoff{base: sec, max: 4 * sec, rand: func() float64 { return 1 }}}
	want := func(what string, now time.Duration, ready bool, next time.Duration) {
		t.Helper()
		if got := b.ready(now); got != ready || b.nextProbe() != next {
			t.Fatalf("%s: ready(%v) = %v, next probe %v; want %v, %v", what, now, got, b.nextProbe(), ready, next)
		}
	}
	b.failure(0, false)
	b.failure(0, false)
	b.success()
	b.failure(0, false)
	b.failure(0, false)
	want("two in a row", 0, true, 0)
	b.failure(0, false)
	want("three in a row", 0, false, sec)
	b.failure(0, false)
	want("a straggler's failure changes nothing", 0, false, sec)
	want("time for a probe", sec, true, sec)
	if !b.begin() {
		t.Fatal("the first call of an open breaker is not a probe")
	}
	want("one probe at a time", sec, false, sec)
	b.failure(sec, true)
	want("failed probe", sec, false, 3*sec)
	b.begin()
	b.failure(3*sec, true)
	want("failed probe", 3*sec, false, 7*sec)
	b.begin()
	b.failure(7*sec, true)
	want("at most four seconds", 7*sec, false, 11*sec)
	b.allowProbe(8 * sec)
	want("a hint", 8*sec, true, 8*sec)
	b.begin()
	b.cancelProbe(true)
	want("no verdict: the next may probe", 8*sec, true, 8*sec)
	b.begin()
	b.success()
	want("closed", 8*sec, true, 0)
	if b.begin() {
		t.Fatal("a call of a closed breaker is a probe")
	}
}

func TestFIFO(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q fifo[int]
		var model []int
		next := 0
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			n := rapid.IntRange(-150, 150).Draw(t, "n")
			for ; n > 0; n-- {
				q.push(next)
				model = append(model, next)
				next++
			}
			for ; n < 0 && len(model) > 0; n++ {
				if p := q.peek(); p != model[0] {
					t.Fatalf("peek %d, want %d", p, model[0])
				}
				if p := q.pop(); p != model[0] {
					t.Fatalf("pop %d, want %d", p, model[0])
				}
				model = model[1:]
			}
			if q.len() != len(model) {
				t.Fatalf("len %d, want %d", q.len(), len(model))
			}
		}
	})
}

// TestTimers checks order, completeness, cancelling, and both bounds of the wait,
// against a list.
func TestTimers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, now := newTimers(), time.Duration(0)
		type waiting struct {
			*timer
			at time.Duration
		}
		var model []waiting
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"set", "set", "cancel", "due"}).Draw(t, "do") {
			case "set":
				w := waiting{new(timer), now + time.Duration(rapid.Int64Range(-1e6, 1e10).Draw(t, "ns"))}
				q.set(w.timer, w.at)
				model = append(model, w)
			case "cancel":
				if n := len(model); n > 0 {
					i := rapid.IntRange(0, n-1).Draw(t, "which")
					q.cancel(model[i].timer)
					model = slices.Delete(model, i, i+1)
				}
			case "due":
				now += time.Duration(rapid.Int64Range(0, 3e9).Draw(t, "ns"))
				last := time.Duration(0)
				for w := q.due(now); w != nil; w = q.due(now) {
					i := slices.IndexFunc(model, func(o waiting) bool { return o.timer == w })
					switch {
					case i < 0:
						t.Fatalf("due, and does not wait: %v", timerDue(w))
					case model[i].at > now, timerDue(w) < last:
						t.Fatalf("now %v: got %v after %v, which waits for %v", now, timerDue(w), last, model[i].at)
					}
					last, model = timerDue(w), slices.Delete(model, i, i+1)
				}
				for _, w := range model {
					if w.at+timerResolution <= now {
						t.Fatalf("now %v: %v was left", now, w.at)
					}
				}
			}
			if q.len() != len(model) {
				t.Fatalf("%d wait, want %d", q.len(), len(model))
			}
			if next, ok := q.next(); ok != (len(model) > 0) || slices.ContainsFunc(model, func(w waiting) bool { return ok && max(w.at, now)+timerResolution <= next }) {
				t.Fatalf("next at %v, %v; waiting: %v", next, ok, model)
			}
		}
	})
}

// TestGraceQueue checks order, completeness, and the two bounds of the wait.
func TestGraceQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := graceQueue{grace: time.Second}
		pushed := make(map[txn.ID]time.Duration)
		now, n, out := time.Duration(0), 0, 1
		take := func() {
			for {
				ids := g.due(nil, now)
				if len(ids) == 0 {
					return
				}
				for _, id := range ids {
					if id != idOf(out) {
						t.Fatalf("got %v, want %v", id, idOf(out))
					}
					out++
					if waited := now - pushed[id]; waited < g.grace {
						t.Fatalf("%v waited %v only", id, waited)
					}
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			for range rapid.IntRange(0, 300).Draw(t, "ids") {
				n++
				pushed[idOf(n)] = now
				g.push(idOf(n), now)
			}
			now += time.Duration(rapid.IntRange(0, 400).Draw(t, "ms")) * time.Millisecond
			take()
			for i := out; i <= n; i++ {
				if late := now - pushed[idOf(i)] - g.grace; late >= graceWindow {
					t.Fatalf("%v is %v late", idOf(i), late)
				}
			}
			if g.n != n-out+1 {
				t.Fatalf("n = %d, want %d", g.n, n-out+1)
			}
		}
		now += 2 * time.Second
		take()
		if _, ok := g.next(); ok || out != n+1 {
			t.Fatalf("%d of %d came out", out-1, n)
		}
	})
}

func TestRedact(t *testing.T) {
	long := string(slices.Repeat([]byte("é"), 400))
	for in, want := range map[string]string{
		"":                                 "",
		"ERROR: deadlock (SQLSTATE 40P01)": "ERROR: deadlock (SQLSTATE 40P01)",
		"no answer within 10s: dial tcp [::1]:5432: timeout": "no answer within 10s: dial tcp [::1]:5432: timeout",
		"a\x00b\nc\x1b[1md":                    "a b c [1md",
		"bad \xff utf8":                        "bad ? utf8",
		"postgres://app:s3cret@db:5432/x: no":  "postgres://app:***@db:5432/x: no",
		"http://u:p@w@h/commit?a=b: 500":       "http://u:***@h/commit?a=b: 500",
		"app:s3cret@tcp(127.0.0.1:3306)/x":     "app:***@tcp(127.0.0.1:3306)/x",
		"host=db password=s3cret dbname=x":     "host=db password=*** dbname=x",
		`cfg {"api_key": "s3 cret", "n": 1}`:   `cfg {"api_key": ***, "n": 1}`,
		"PGPASSWORD='s3 cret' psql":            "PGPASSWORD=*** psql",
		"Authorization: Bearer eyJhbGciOi.x-y": "Authorization: Bearer ***",
		long:                                   long[:296] + "...",
	} {
		if got := redact(in); got != want {
			t.Errorf("plain(%q) = %q, want %q", in, got, want)
		}
	}
	if got := redact(long); len(got) > maxText {
		t.Errorf("%d bytes", len(got))
	}
}
