package costa

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// listing is the dissertation's listing, line by line: the reference for Strict, transcribed
// without interpretation.
type listing struct {
	algorithm                                       string
	locksFirst                                      bool // as the pseudocode has it
	started, incItr, incCheckItr, decItr, decCheckI bool
	incImproved, decImproved                        bool
	incLock, decLock, resetMemory                   int
	oldRate, oldMean, old99                         float64
	total, oldCount                                 uint64
	memory                                          []memory
	size                                            int
}

type memory struct {
	size, count int
	value       float64
}

func newListing(algorithm string, size int) *listing {
	return &listing{algorithm: algorithm, incImproved: true, decImproved: true, size: size}
}

func (l *listing) decrementBy10() {
	if l.size-10 > 0 {
		l.size -= 10
	}
}

func (l *listing) run(rate, mean, p99 float64, completed uint64) {
	l.total += completed
	if !l.started && l.total > 0 {
		l.incItr = true
		l.started = true
	}
	current := l.size
	switch l.algorithm {
	case "T":
		l.throughput(current, rate)
	case "M":
		l.latency(l.oldMean, mean)
	case "99P":
		l.latency(l.old99, p99)
	}
	l.oldRate, l.oldMean, l.old99 = rate, mean, p99
	if l.locksFirst {
		l.locks()
		l.phases()
	} else {
		l.phases()
		l.locks()
	}
	if l.total-l.oldCount == 0 && l.size > 1 {
		l.size = 1
	}
	l.oldCount = l.total
}

func (l *listing) throughput(current int, rate float64) {
	if (!l.decItr || l.decItr && !l.decImproved) && (l.oldRate-rate)/l.oldRate*100 > 10 && l.resetMemory != 300 {
		for i := 0; i < len(l.memory)-1; i++ {
			if l.memory[i].size == 0 {
				continue
			}
			if rate <= (l.memory[i].value+l.memory[i+1].value)/2 {
				l.size = l.memory[i].size
				break
			}
		}
	}
	if l.incItr && l.incImproved {
		l.size += 10
	}
	if l.incCheckItr && l.incImproved {
		if (rate-l.oldRate)/l.oldRate*100 < 10 {
			l.incImproved = false
			l.decrementBy10()
			l.incLock = 6
		}
	}
	for i := range l.memory {
		if m := &l.memory[i]; m.size == current {
			m.value = (m.value*float64(m.count) + rate) / float64(m.count+1)
			m.count++
			return
		}
	}
	l.memory = append(l.memory, memory{current, 1, rate})
}

func (l *listing) latency(before, now float64) {
	if l.incItr && l.incImproved {
		l.size += 10
	}
	if l.incCheckItr && l.incImproved {
		if (before-now)/before*100 < 5 {
			l.incImproved = false
			l.decrementBy10()
			l.incLock = 6
		}
	}
	if l.decItr && l.decImproved {
		l.decrementBy10()
	}
	if l.decCheckI && l.decImproved {
		if (before-now)/before*100 < 5 {
			l.decImproved = false
			l.size += 10
			l.decLock = 6
		}
	}
}

func (l *listing) phases() {
	switch {
	case l.incItr:
		l.incItr, l.incCheckItr = false, true
	case l.incCheckItr:
		l.incCheckItr = false
		if l.algorithm == "T" {
			l.incItr = true
		} else {
			l.decItr = true
		}
	case l.decItr:
		l.decItr, l.decCheckI = false, true
	case l.decCheckI:
		l.decCheckI, l.incItr = false, true
	}
}

func (l *listing) locks() {
	if l.incLock > 0 {
		l.incLock--
	} else if l.incLock == 0 {
		l.incImproved = true
	}
	if l.decLock > 0 {
		l.decLock--
	} else if l.decLock == 0 {
		l.decImproved = true
	}
}

// TestStrictIsTheListing shows random windows to both.
//
// Row 1: the listing allows the first steps.
// Row 11: it makes no difference whether locks or phases come first.
// Row 12: a lock of 6 is one of six iterations.
// Row 15: the countdown that would clear the table stays at 0.
func TestStrictIsTheListing(t *testing.T) {
	for _, algorithm := range []string{"T", "M", "99P"} {
		t.Run(algorithm, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				start := rapid.IntRange(1, 60).Draw(t, "start")
				o := strict(t, algorithm)
				java := newListing(algorithm, start)
				java.locksFirst = rapid.Bool().Draw(t, "locks first")
				limit := start
				for i := range 80 {
					completed := rapid.SampledFrom([]uint32{0, 1, 50, 90, 100, 109, 110, 111, 200, 1000}).Draw(t, "completed")
					took := time.Duration(rapid.IntRange(18, 24).Draw(t, "ms")) * time.Millisecond
					w := windowOf(limit, completed, took)
					limit = o.Observe(w).Limit
					java.run(w.Rate(), float64(w.Sojourn.Mean()), float64(w.Sojourn.Quantile(0.99)), w.Completed)
					if limit != java.size {
						t.Fatalf("window %d: limit %d, the listing has %d", i, limit, java.size)
					}
				}
			})
		})
	}
}
