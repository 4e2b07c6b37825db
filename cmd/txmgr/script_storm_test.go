package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/txn"
)

// cmdStorm begins transactions that expire together, and waits until recovery has rolled back all
// their branches.
func cmdStorm(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: storm N TIMEOUT PARTICIPANT...")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	timeout, err := time.ParseDuration(args[1])
	ts.Check(err)
	var branches []txn.Enlistment
	for _, p := range args[2:] {
		branches = append(branches, txn.Enlistment{Participant: p})
	}
	c, err := client.Open(client.Config{Address: ts.Getenv("TXMGR_ADDR")})
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	deadline := time.Now().Add(timeout)
	ids := make([]txn.ID, n)
	ts.Check(inParallel(n, func(i int) error {
		b, err := c.Begin(ctx, txn.Options{Timeout: time.Until(deadline), Branches: branches})
		ids[i] = b.ID
		return err
	}))
	ts.Check(inParallel(n, func(i int) error {
		_, err := c.Wait(ctx, ids[i], txn.UntilFinished)
		return err
	}))
	ts.Check(c.Close())
}

// inParallel calls do for every number below n, with 64 callers, and returns one of the errors.
func inParallel(n int, do func(i int) error) (failed error) {
	const callers = 64
	var wg sync.WaitGroup
	var once sync.Once
	for caller := range callers {
		wg.Go(func() {
			for i := caller; i < n; i += callers {
				if err := do(i); err != nil {
					once.Do(func() { failed = err })
					return
				}
			}
		})
	}
	wg.Wait()
	return failed
}
