package rig

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of processor times in /proc, the same on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// OwnCPU is the processor time of this process so far.
func OwnCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("processor time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// CPUOf is the processor time of another process so far.
func CPUOf(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	const user, system = 11, 12
	var ticks int64
	for _, f := range []int{user, system} {
		if f >= len(fields) {
			return 0, fmt.Errorf("processor time of process %d: only %d fields", pid, len(fields))
		}
		n, err := strconv.ParseInt(fields[f], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// Written is how many bytes this process has caused to be written to disks so far.
func Written() (int64, error) {
	b, err := strconv.ParseInt(firstField("/proc/self/io", "write_bytes"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("bytes written: %w", err)
	}
	return b, nil
}

// Resident is the memory of this process that is in RAM.
func Resident() (int64, error) {
	kb, _, _ := strings.Cut(firstField("/proc/self/status", "VmRSS"), " ")
	n, err := strconv.ParseInt(kb, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resident memory: %w", err)
	}
	return n << 10, nil
}
