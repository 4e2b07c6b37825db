package serve

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
)

// closers closes what was opened, in reverse order.
type closers struct {
	list []closer
}

type closer struct {
	what  string
	close func() error
}

func (c *closers) add(what string, f func() error) { c.list = append(c.list, closer{what, f}) }

func (c *closers) close(err error) error {
	for _, x := range slices.Backward(c.list) {
		if e := x.close(); e != nil && !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, fmt.Errorf("close %s: %w", x.what, e))
		}
	}
	c.list = nil
	return err
}

func removeFunc(path string) func() error {
	return func() error {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
}
