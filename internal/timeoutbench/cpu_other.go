//go:build !linux

package timeoutbench

import "time"

var began = time.Now()

// ProcessCPU returns the time on the wall: there is no better clock here.
func ProcessCPU() time.Duration { return time.Since(began) }

// ThreadCPU returns the time on the wall that do takes.
func ThreadCPU(do func()) time.Duration {
	start := time.Now()
	do()
	return time.Since(start)
}
