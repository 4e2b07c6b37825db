package client_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
)

// Invariant 5 while the server keeps running: the cleanup is not a result of its stop.
func TestCloseLeavesNothing(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		cfg.Address = serve(t, servertest.New())
		// The first call makes sure that the server runs.
		if _, err := open(t, client.Config{Address: cfg.Address, Unary: true}).Admin().Status(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := goleak.IgnoreCurrent()
		c, err := client.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := c.Begin(t.Context(), txn.Options{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Admin().Status(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		// The goroutines of the server's side of the connections have to end too.
		goleak.VerifyNone(t, before)
	})
}
