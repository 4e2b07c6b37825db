package sim

import (
	"errors"
	"time"
)

// The faults of a host's disk.
const (
	diskHealthy int32 = iota
	diskFull          // nothing is written
	diskFailing       // a write fails, and may have taken effect
)

var errDisk = errors.New("sim: the disk fails")

// OnFailure sets the function that is called with the first failure, as an option of logstore does.
func (d *disk) OnFailure(tell func(error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onFailure = tell
}

// writeError returns the error of a write, if it fails. From then on every write fails, until the
// next process, as with logstore.
func (d *disk) writeError() error {
	d.mu.Lock()
	first := !d.broken && !d.dead && d.host.diskFault.Load() != diskHealthy
	d.broken = d.broken || first
	broken, tell := d.broken && !d.dead, d.onFailure
	d.mu.Unlock()
	if first {
		tell(errDisk)
	}
	if broken {
		return errDisk
	}
	return nil
}

// stop ends a process whose disk has failed: soon, and it restarts when the disk works again.
func (l *process) stop(err error) {
	h := l.host
	h.w.tracef("%s stops: %v", h.name, err)
	h.w.countFault("node stops: its disk failed")
	h.w.all.Go(func() {
		sleep(h.w.rng.between(0, 20*time.Millisecond))
		h.end(l)
		for h.diskFault.Load() != diskHealthy {
			sleep(20 * time.Millisecond)
		}
		sleep(h.w.rng.between(0, 3*time.Second))
		h.start()
	})
}

// failDisk makes a host's disk fail for a while.
func failDisk(w *World, d *rng, how int32) {
	h := w.hosts[d.n(len(w.hosts))]
	if d.oneIn(2) {
		h = w.leading(d)
	}
	h.diskFault.Store(how)
	w.waitFault(d, 50*time.Millisecond, 5*time.Second)
	h.diskFault.Store(diskHealthy)
}
