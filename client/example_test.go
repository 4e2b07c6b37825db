package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
)

// The five steps of a transaction whose branch the application prepares itself.
func Example() {
	s, err := server.New(server.Config{}, servertest.New()) // elsewhere: txmgr dev
	if err != nil {
		panic(err)
	}
	web := httptest.NewServer(s.Handler())
	defer web.Close()

	// Unary, because httptest speaks HTTP/1.1 only; usually client.Dial(address).
	m, err := client.Open(client.Config{Address: web.URL, Unary: true})
	if err != nil {
		panic(err)
	}
	defer m.Close()

	ctx := context.Background()
	t, err := m.Begin(ctx, txn.Options{Name: "transfer", Timeout: 30 * time.Second, Branches: []txn.Enlistment{{Participant: "bank"}}})
	if err != nil {
		panic(err)
	}
	branch := t.Branches[0]
	fmt.Println("work, then PREPARE TRANSACTION under a name that begins with", branch.XID[:9])

	out, err := m.Commit(ctx, t.ID, txn.CommitRequest{
		ClientCompletes: true,
		Votes:           []txn.BranchVote{{Branch: branch.ID, Vote: txn.VotePrepared}},
	})
	switch {
	case errors.Is(err, txn.ErrRolledBack):
		fmt.Println("nothing was applied")
	case errors.Is(err, txn.ErrInDoubt):
		fmt.Println("ask again: m.Get(ctx, t.ID)")
	case err != nil:
		panic(err)
	}
	fmt.Println(out.State, "- now COMMIT PREPARED, then:")
	if err := m.ReportCompletion(ctx, t.ID, txn.CompletionReport{Branch: branch.ID, State: txn.BranchCommitted}); err != nil {
		panic(err)
	}
	info, err := m.Get(ctx, t.ID)
	fmt.Println(info.State, err)
	// Output:
	// work, then PREPARE TRANSACTION under a name that begins with txm_fake_
	// committing - now COMMIT PREPARED, then:
	// committed <nil>
}
