package rig

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ExternalLoad measures the use of the machine's processors by others: it tells an idle machine
// from a shared one better than the load average, which includes the measured load itself.
type ExternalLoad struct {
	began        time.Time
	busy, stolen time.Duration
	own          time.Duration
}

// CPUShare is relative to all processors of the machine, from 0 to 1.
type CPUShare struct {
	Others float64 `json:"others"` // used by programs that were not started here
	Stolen float64 `json:"stolen"` // taken by the host
}

// WatchExternalLoad begins the measurement.
func WatchExternalLoad() (n ExternalLoad, err error) {
	n.began = time.Now()
	if n.busy, n.stolen, err = machineCPU(); err == nil {
		n.own, err = processTreeCPU()
	}
	return n, err
}

// Share is called when every process that this one has started has ended.
func (n ExternalLoad) Share() (s CPUShare, err error) {
	end, err := WatchExternalLoad()
	if err != nil {
		return s, err
	}
	all := end.began.Sub(n.began).Seconds() * float64(cpus())
	s.Others = max(0, ((end.busy-n.busy)-(end.own-n.own)).Seconds()/all)
	s.Stolen = (end.stolen - n.stolen).Seconds() / all
	return s, nil
}

// processTreeCPU is the processor time of this process and of those it has started, once they have
// ended.
func processTreeCPU() (time.Duration, error) {
	own, err := OwnCPU()
	if err != nil {
		return 0, err
	}
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		return 0, fmt.Errorf("processor time: %w", err)
	}
	return own + time.Duration(u.Utime.Nano()+u.Stime.Nano()), nil
}

// machineCPU is the time that all processors were busy so far, and the time that the host gave to
// other guests.
func machineCPU() (busy, stolen time.Duration, err error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, fmt.Errorf("processor time of the machine: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal ...
	if len(fields) < 9 {
		return 0, 0, fmt.Errorf("processor time of the machine: %q has %d fields", line, len(fields))
	}
	ticks := make([]int64, len(fields))
	for i, f := range fields[1:] {
		if ticks[i+1], err = strconv.ParseInt(f, 10, 64); err != nil {
			return 0, 0, fmt.Errorf("processor time of the machine: %w", err)
		}
	}
	return time.Duration(ticks[1]+ticks[2]+ticks[3]+ticks[6]+ticks[7]) * clockTick, time.Duration(ticks[8]) * clockTick, nil
}
