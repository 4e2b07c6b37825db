package rig

import (
	"fmt"
	"os"
	"path/filepath"
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
	n, err := stat(pid, statUser, statSystem)
	if err != nil {
		return 0, fmt.Errorf("processor time: %w", err)
	}
	return time.Duration(n[0]+n[1]) * clockTick, nil
}

// CPUOfTree is the processor time of a process and of its children so far, including those that
// have ended: for a server with a process for each connection.
func CPUOfTree(pid int) (time.Duration, error) {
	n, err := stat(pid, statUser, statSystem, statEndedUser, statEndedSystem)
	if err != nil {
		return 0, fmt.Errorf("processor time: %w", err)
	}
	sum := n[0] + n[1] + n[2] + n[3]
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, fmt.Errorf("processor time: list processes: %w", err)
	}
	for _, dir := range dirs {
		child, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		n, err := stat(child, statParent, statUser, statSystem)
		if err == nil && n[0] == int64(pid) { // otherwise it has ended meanwhile
			sum += n[1] + n[2]
		}
	}
	return time.Duration(sum) * clockTick, nil
}

// The positions of figures in a process's stat, counted from the end of its name.
const (
	statParent      = 1
	statUser        = 11
	statSystem      = 12
	statEndedUser   = 13
	statEndedSystem = 14
)

func stat(pid int, places ...int) ([]int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	// The name, in parentheses, may contain any characters.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	out := make([]int64, len(places))
	for i, f := range places {
		if f >= len(fields) {
			return nil, fmt.Errorf("process %d: only %d fields", pid, len(fields))
		}
		if out[i], err = strconv.ParseInt(fields[f], 10, 64); err != nil {
			return nil, fmt.Errorf("process %d: %w", pid, err)
		}
	}
	return out, nil
}

// Written is the number of bytes that this process has caused to be written to disks so far.
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
