package timeoutbench

import (
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// The clocks of Linux that count the time of a processor.
const (
	ofProcess = 2
	ofThread  = 3
)

func clock(id uintptr) time.Duration {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic(errno) // every Linux has both
	}
	return time.Duration(ts.Nano())
}

// ProcessCPU returns the processor time of this process so far.
func ProcessCPU() time.Duration { return clock(ofProcess) }

// ThreadCPU returns the processor time that do takes on its thread.
func ThreadCPU(do func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := clock(ofThread)
	do()
	return clock(ofThread) - start
}
