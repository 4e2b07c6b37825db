package main

import (
	"errors"
	"fmt"
	"net"
	"sync"
)

// deaf is a server that accepts connections and never says a word: what a process that hangs looks like.
type deaf struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	calls []net.Conn // guarded by mu
}

func newDeaf() (*deaf, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	d := &deaf{listener: l}
	d.wg.Go(d.accept)
	return d, nil
}

func (d *deaf) accept() {
	for {
		c, err := d.listener.Accept()
		if err != nil {
			return
		}
		d.mu.Lock()
		d.calls = append(d.calls, c)
		d.mu.Unlock()
	}
}

// dsn is a connection string of MariaDB that leads here.
func (d *deaf) dsn() string { return fmt.Sprintf("root@tcp(%s)/stock", d.listener.Addr()) }

// called is how many connections there were so far.
func (d *deaf) called() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.calls)
}

// Close hangs up.
func (d *deaf) Close() error {
	err := d.listener.Close()
	d.wg.Wait()
	errs := []error{err}
	for _, c := range d.calls {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
