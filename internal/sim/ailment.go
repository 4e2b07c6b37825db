package sim

import (
	"errors"
	"time"
)

// What may be wrong with a host's disk.
const (
	healthy int32 = iota
	full          // nothing is written
	failing       // a write fails, and may have come about
)

var errDisk = errors.New("sim: the disk fails")

// OnFailure says whom to tell of the first failure, as an option of logstore does.
func (d *disk) OnFailure(tell func(error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tell = tell
}

// fails gives the error of a write, if it fails. From then on every one does, until the
// next life, as with logstore.
func (d *disk) fails() error {
	d.mu.Lock()
	first := !d.broken && !d.dead && d.host.ails.Load() != healthy
	d.broken = d.broken || first
	broken, tell := d.broken && !d.dead, d.tell
	d.mu.Unlock()
	if first {
		tell(errDisk)
	}
	if broken {
		return errDisk
	}
	return nil
}

// stop is the end of a process of which the disk has failed: soon, and it comes back
// when there is a disk again.
func (l *life) stop(err error) {
	h := l.host
	h.w.tell("%s stops: %v", h.name, err)
	h.w.fire("node stops: its disk failed")
	h.w.all.Go(func() {
		rest(h.w.dice.between(0, 20*time.Millisecond))
		h.end(l)
		for h.ails.Load() != healthy {
			rest(20 * time.Millisecond)
		}
		rest(h.w.dice.between(0, 3*time.Second))
		h.start()
	})
}

// ail makes a host's disk fail for a while.
func ail(w *World, d *dice, how int32) {
	h := w.hosts[d.n(len(w.hosts))]
	if d.one(2) {
		h = w.leading(d)
	}
	h.ails.Store(how)
	w.while(d, 50*time.Millisecond, 5*time.Second)
	h.ails.Store(healthy)
}
