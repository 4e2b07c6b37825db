// Package faultproxy is a TCP proxy that injects faults between a program under test and its
// servers: it closes connections or hangs. It listens on the address it is given and is of use only
// in tests. Call [New]:
//
//	p, err := faultproxy.New("127.0.0.1:0", address)
//	defer p.Close()
//	release := p.Hang()
//	defer release()
package faultproxy

import (
	"net"
	"sync"
	"time"
)

// Proxy forwards connections, and can close them or hang. Its methods are safe for concurrent use,
// except where noted. Create one with [New].
type Proxy struct {
	listen net.Listener
	wg     sync.WaitGroup

	mu     sync.Mutex // guards all below
	to     string
	conns  map[net.Conn]struct{} // both ends
	open   chan struct{}         // closed while the proxy forwards
	closed bool
}

// New returns a proxy that listens on the TCP address at, where port 0 is any free one, and
// forwards to the address to. No server need listen there yet.
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

// Address is the address on which the proxy listens.
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

// add registers a connection, unless the proxy is closed.
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

// opened returns a channel that is closed while the proxy forwards.
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

// pump copies bytes in one direction; when it ends, it closes both connections.
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

// Redirect forwards connections that are opened from now on to another address. Existing ones stay:
// see [Proxy.Disconnect].
func (r *Proxy) Redirect(to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = to
}

// Disconnect closes all connections and returns the number of closed ends, two for each forwarded
// connection.
func (r *Proxy) Disconnect() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.Close()
	}
	return len(r.conns)
}

// Hang accepts connections and bytes, and forwards none until release is called. It is for one
// caller at a time.
func (r *Proxy) Hang() (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	shut := make(chan struct{})
	r.open = shut
	return func() { close(shut) }
}

// Close closes the proxy and all connections through it. A hang must be released before.
func (r *Proxy) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	_ = r.listen.Close()
	r.Disconnect()
	r.wg.Wait()
}
