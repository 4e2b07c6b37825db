package cluster

import (
	"net"
	"sync"
	"time"
)

// relay passes connections on, and can lose them or hang: it takes connections and
// bytes then, and passes none on until it is released.
type relay struct {
	to     string
	listen net.Listener
	all    sync.WaitGroup

	mu     sync.Mutex            // guards all below
	conns  map[net.Conn]struct{} // both ends
	open   chan struct{}         // closed while it passes on
	closed bool
}

func newRelay(at, to string) (*relay, error) {
	l, err := net.Listen("tcp", at)
	if err != nil {
		return nil, err
	}
	r := &relay{to: to, listen: l, conns: map[net.Conn]struct{}{}, open: make(chan struct{})}
	close(r.open)
	r.all.Go(r.accept)
	return r, nil
}

func (r *relay) address() string { return r.listen.Addr().String() }

func (r *relay) accept() {
	for {
		in, err := r.listen.Accept()
		if err != nil {
			return
		}
		if r.add(in) {
			r.all.Go(func() { r.serve(in) })
		}
	}
}

// add takes a connection on, if the relay is not closed.
func (r *relay) add(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		_ = c.Close()
		return false
	}
	r.conns[c] = struct{}{}
	return true
}

func (r *relay) drop(c net.Conn) {
	_ = c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

// gate is closed while the relay passes on.
func (r *relay) gate() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open
}

func (r *relay) serve(in net.Conn) {
	defer r.drop(in)
	<-r.gate()
	out, err := net.DialTimeout("tcp", r.to, 5*time.Second)
	if err != nil || !r.add(out) {
		return
	}
	defer r.drop(out)
	back := make(chan struct{})
	go func() {
		defer close(back)
		r.pump(in, out)
	}()
	r.pump(out, in)
	<-back
}

// pump passes bytes on in one direction; when that ends, both do.
func (r *relay) pump(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		<-r.gate()
		if _, writeErr := to.Write(buffer[:n]); err != nil || writeErr != nil {
			_, _ = to.Close(), from.Close()
			return
		}
	}
}

// cut loses all connections, and says how many.
func (r *relay) cut() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.Close()
	}
	return len(r.conns)
}

// hang passes nothing on until release is called. It is for one caller at a time.
func (r *relay) hang() (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	shut := make(chan struct{})
	r.open = shut
	return func() { close(shut) }
}

func (r *relay) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	_ = r.listen.Close()
	r.cut()
	r.all.Wait()
}
