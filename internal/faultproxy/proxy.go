// Package faultproxy stands between a program under test and what it calls, and makes the line bad: it loses connections or
// hangs. It listens where it is told to and has no other use than tests.
package faultproxy

import (
	"net"
	"sync"
	"time"
)

// Proxy passes connections on, and can lose them or hang. Its methods are safe for concurrent use, but for those that say
// otherwise. Make one with [New].
type Proxy struct {
	listen net.Listener
	wg     sync.WaitGroup

	mu     sync.Mutex // guards all below
	to     string
	conns  map[net.Conn]struct{} // both ends
	open   chan struct{}         // closed while it passes on
	closed bool
}

// New returns a relay that listens at the TCP address at, where port 0 is any free one, and passes on to the other address.
// Nobody need be there yet.
func New(at, to string) (*Proxy, error) {
	l, err := net.Listen("tcp", at)
	if err != nil {
		return nil, err
	}
	r := &Proxy{to: to, listen: l, conns: map[net.Conn]struct{}{}, open: make(chan struct{})}
	close(r.open)
	r.wg.Go(r.accept)
	return r, nil
}

// Address is where the relay listens.
func (r *Proxy) Address() string { return r.listen.Addr().String() }

func (r *Proxy) accept() {
	for {
		in, err := r.listen.Accept()
		if err != nil {
			return
		}
		if r.add(in) {
			r.wg.Go(func() { r.serve(in) })
		}
	}
}

// add takes a connection on, if the relay is not closed.
func (r *Proxy) add(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		_ = c.Close()
		return false
	}
	r.conns[c] = struct{}{}
	return true
}

func (r *Proxy) drop(c net.Conn) {
	_ = c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

// opened is closed while the relay passes on.
func (r *Proxy) opened() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open
}

func (r *Proxy) serve(in net.Conn) {
	defer r.drop(in)
	<-r.opened()
	out, err := net.DialTimeout("tcp", r.target(), 5*time.Second)
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
func (r *Proxy) pump(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		<-r.opened()
		if _, writeErr := to.Write(buffer[:n]); err != nil || writeErr != nil {
			_, _ = to.Close(), from.Close()
			return
		}
	}
}

func (r *Proxy) target() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.to
}

// Redirect passes connections that come from now on to another address. Those that are there stay: see [Proxy.Disconnect].
func (r *Proxy) Redirect(to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = to
}

// Disconnect loses all connections and says how many ends it has closed, two for each that had come through.
func (r *Proxy) Disconnect() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.Close()
	}
	return len(r.conns)
}

// Hang takes connections and bytes, and passes none on until release is called. It is for one caller at a time.
func (r *Proxy) Hang() (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	shut := make(chan struct{})
	r.open = shut
	return func() { close(shut) }
}

// Close ends the relay and all connections through it. What hangs must be released before.
func (r *Proxy) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	_ = r.listen.Close()
	r.Disconnect()
	r.wg.Wait()
}
