package client_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// A node that accepts connections, and hangs, does not keep the others from answering.
func TestNodeThatHangs(t *testing.T) {
	silent := listen(t, "127.0.0.1:0") // accepts, and does not answer
	defer silent.Close()
	defer silent.cut()
	go func() {
		for {
			if _, err := silent.Accept(); err != nil {
				return
			}
		}
	}()
	address := "http://" + silent.Addr().String() + "," + serve(t, servertest.New())
	for name, call := range map[string]func(c *client.Client) error{
		"commit": func(c *client.Client) error {
			b, err := c.Begin(t.Context(), txn.Options{})
			if err == nil {
				_, err = c.Commit(t.Context(), b.ID, txn.CommitRequest{})
			}
			return err
		},
		"list":   func(c *client.Client) error { _, err := c.List(soon(t, 2*time.Second), admin.Filter{}); return err },
		"doctor": func(c *client.Client) error { _, err := c.Admin().Doctor(t.Context(), ""); return err },
		"transfer leader": func(c *client.Client) error {
			if err := c.Admin().TransferLeader(t.Context(), "", "", ""); !errors.Is(err, txn.ErrNotFound) { // there is no other node
				return err
			}
			return nil
		},
	} {
		c := open(t, client.Config{Address: address, Unary: true, RequestTimeout: 2 * time.Second})
		if err := call(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A call does not wait for a leader as long as for participants.
func TestAskingWithoutALeader(t *testing.T) {
	fake := servertest.New()
	fake.SetLeader("", false)
	c := open(t, client.Config{Address: serve(t, fake), RequestTimeout: 500 * time.Millisecond})
	for name, call := range map[string]func() error{
		"doctor":          func() error { _, err := c.Admin().Doctor(t.Context(), ""); return err },
		"remove":          func() error { return c.Admin().Remove(t.Context(), "n1", "", "gone") },
		"transfer leader": func() error { return c.Admin().TransferLeader(t.Context(), "", "", "") },
	} {
		started := time.Now()
		if err := call(); !errors.Is(err, txn.ErrUnavailable) || !strings.Contains(err.Error(), "does not lead") || time.Since(started) > 5*time.Second {
			t.Errorf("%s: %v after %v", name, err, time.Since(started))
		}
	}
}

// A node's answer is reported rather than that other nodes are unreachable.
func TestWordOfTheLastNode(t *testing.T) {
	fake := servertest.New()
	fake.SetLeader("", false)
	gone := "http://" + freePort(t)
	c := open(t, client.Config{Address: gone + "," + serve(t, fake) + "," + gone, Unary: true})
	for range 2 {
		if _, err := c.Begin(soon(t, time.Second), txn.Options{}); !errors.Is(err, txn.ErrUnavailable) || !strings.Contains(err.Error(), "does not lead") {
			t.Errorf("begin: %v", err)
		}
		if err := c.Admin().TransferLeader(soon(t, time.Second), "", "", ""); !errors.Is(err, txn.ErrUnavailable) || !strings.Contains(err.Error(), "does not lead") {
			t.Errorf("transfer: %v", err)
		}
	}
}
