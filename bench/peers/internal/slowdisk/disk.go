package slowdisk

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Disk delays synchronisations. Its methods may be called by several goroutines.
type Disk struct {
	notices int
	delay   atomic.Int64 // nanoseconds
	cpu     atomic.Int64 // nanoseconds
	calls   atomic.Int64
}

// Start begins to watch this process, and all that it starts from then on, without a delay at first.
// It ends with this process; the calls of those that outlive it fail.
func Start() (*Disk, error) {
	notices, err := install()
	if err != nil {
		return nil, err
	}
	d := &Disk{notices: notices}
	go d.run()
	return d, nil
}

// SetDelay sets by how much each synchronisation is delayed from now on.
func (d *Disk) SetDelay(by time.Duration) { d.delay.Store(int64(by)) }

// Calls is the number of synchronisations so far.
func (d *Disk) Calls() int64 { return d.calls.Load() }

// CPU is the processor time that the delays have cost this process so far. It is part of the
// processor time of the process.
func (d *Disk) CPU() time.Duration { return time.Duration(d.cpu.Load()) }

// waiting is a call that proceeds when it is due.
type waiting struct {
	id  uint64
	due time.Time
}

// run lets calls proceed in the order in which they were made. It has a thread of its own, whose
// processor time can be told from the rest of the process.
func (d *Disk) run() {
	runtime.LockOSThread()
	// The kernel may wake a thread 50 microseconds late otherwise.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	var queue []waiting
	for {
		var err error
		if queue, err = d.step(queue); err != nil {
			// Without it, every synchronisation of every process would wait for ever.
			fmt.Fprintln(os.Stderr, "delay the disk:", err)
			os.Exit(1)
		}
	}
}

// step waits until a call is made or due.
func (d *Disk) step(queue []waiting) ([]waiting, error) {
	var limit *unix.Timespec
	if len(queue) > 0 {
		t := unix.NsecToTimespec(int64(max(time.Until(queue[0].due), 0)))
		limit = &t
	}
	ready, err := unix.Ppoll([]unix.PollFd{{Fd: int32(d.notices), Events: unix.POLLIN}}, limit, nil)
	if err != nil && err != unix.EINTR {
		return queue, os.NewSyscallError("ppoll", err)
	}
	if ready > 0 {
		id, err := receive(d.notices)
		if err != nil {
			return queue, err
		}
		if id != 0 {
			d.calls.Add(1)
			queue = append(queue, waiting{id, time.Now().Add(time.Duration(d.delay.Load()))})
		}
	}
	for len(queue) > 0 && time.Until(queue[0].due) <= 0 {
		if err := proceed(d.notices, queue[0].id); err != nil {
			return queue, err
		}
		queue = queue[1:]
	}
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err == nil {
		d.cpu.Store(u.Utime.Nano() + u.Stime.Nano())
	}
	return queue, nil
}
