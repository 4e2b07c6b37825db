package peer

import (
	"net"
	"slices"
	"sync"
)

const (
	maxWaiting     = 128 // connections that have not said who they are
	maxWaitingHost = 16  // of them, from one address
)

// door is where connections wait until it is known who they are. Room is made by
// sending away who has waited longest: a node needs milliseconds, so it is somebody
// who does not want to come in.
type door struct {
	mu      sync.Mutex // guards all below
	closed  bool
	waiting []*guest // who has waited longest first
}

type guest struct {
	raw  net.Conn
	host string
}

func (d *door) enter(raw net.Conn) *guest {
	g := &guest{raw: raw, host: host(raw)}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		_ = raw.Close()
		return g
	}
	sameHost := func(o *guest) bool { return o.host == g.host }
	n := 0
	for _, o := range d.waiting {
		if sameHost(o) {
			n++
		}
	}
	switch {
	case n >= maxWaitingHost:
		d.sendAwayLocked(slices.IndexFunc(d.waiting, sameHost))
	case len(d.waiting) >= maxWaiting:
		d.sendAwayLocked(0)
	}
	d.waiting = append(d.waiting, g)
	return g
}

func (d *door) leave(g *guest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.waiting, g); i >= 0 {
		d.waiting = slices.Delete(d.waiting, i, i+1)
	}
}

func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for len(d.waiting) > 0 {
		d.sendAwayLocked(0)
	}
}

func (d *door) sendAwayLocked(i int) {
	_ = d.waiting[i].raw.Close()
	d.waiting = slices.Delete(d.waiting, i, i+1)
}

func host(c net.Conn) string {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.IP.String()
	}
	return c.RemoteAddr().String()
}
