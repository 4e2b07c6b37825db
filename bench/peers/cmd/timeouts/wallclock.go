package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/txmgr/txmgr/internal/timeoutbench"
)

// wallClockContender is a contender that uses the wall clock.
type wallClockContender struct {
	add   func(id uint64, after time.Duration)
	ended func() uint64 // how many entries have ended so far
}

const (
	window     = 2 * time.Second // in which all entries end
	endTimeout = 5 * time.Minute
)

// measureWallClock lets entries end in a window that begins when all have been added, and returns
// the processor time of the whole process for each entry, in nanoseconds.
func measureWallClock(size int, l timeoutbench.Load, c wallClockContender) (float64, error) {
	r := rand.New(rand.NewPCG(1, 2))
	lead := time.Second + time.Duration(size)*5*time.Microsecond
	start := time.Now()
	for n := range size {
		end := window * time.Duration(l.Ahead(r)) / time.Duration(timeoutbench.Horizon)
		c.add(uint64(n+1), lead-time.Since(start)+end)
	}
	runtime.GC()
	if time.Since(start) > lead || c.ended() > 0 {
		return 0, fmt.Errorf("adding took longer than %v: measure on a quieter machine", lead)
	}
	before := timeoutbench.ProcessCPU()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for c.ended() < uint64(size) {
		<-poll.C
		if time.Since(start) > endTimeout {
			return 0, fmt.Errorf("%d of %d entries ended within %v", c.ended(), size, endTimeout)
		}
	}
	return float64(timeoutbench.ProcessCPU()-before) / float64(size), nil
}
