package main

import (
	"errors"
	"fmt"
	"net"
	"sync"
)

// unresponsiveServer is a server that accepts connections and never answers, like a process that
// hangs.
type unresponsiveServer struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn // guarded by mu
}

func newUnresponsiveServer() (*unresponsiveServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	d := &unresponsiveServer{listener: l}
	d.wg.Go(d.accept)
	return d, nil
}

func (d *unresponsiveServer) accept() {
	for {
		c, err := d.listener.Accept()
		if err != nil {
			return
		}
		d.mu.Lock()
		d.conns = append(d.conns, c)
		d.mu.Unlock()
	}
}

// dsn is a DSN of MariaDB for this server.
func (d *unresponsiveServer) dsn() string {
	return fmt.Sprintf("root@tcp(%s)/stock", d.listener.Addr())
}

// connCount is the number of connections so far.
func (d *unresponsiveServer) connCount() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.conns)
}

// Close closes the listener and all connections.
func (d *unresponsiveServer) Close() error {
	err := d.listener.Close()
	d.wg.Wait()
	errs := []error{err}
	for _, c := range d.conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
