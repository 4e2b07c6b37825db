package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/txmgr/v1/txmgrv1connect"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

// gRPC clients can use reflection, and get the same failures.
func TestGRPC(t *testing.T) {
	r := start(t, nil)
	ctx := context.Background()
	stream := grpcreflect.NewClient(h2(t), r.base, connect.WithGRPC()).NewStream(ctx)
	names, err := stream.ListServices()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Close(); err != nil {
		t.Error(err)
	}
	var got []string
	for _, n := range names {
		got = append(got, string(n))
	}
	slices.Sort(got)
	if want := "txmgr.v1.ClusterService txmgr.v1.InDoubtService txmgr.v1.ParticipantService txmgr.v1.SessionService txmgr.v1.TimeoutService txmgr.v1.TokenService txmgr.v1.TransactionService"; strings.Join(got, " ") != want {
		t.Errorf("services: %v", got)
	}
	c := txmgrv1connect.NewTransactionServiceClient(h2(t), r.base, connect.WithGRPC())
	if _, err := c.Begin(ctx, &txmgrv1.BeginRequest{Id: id1}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Rollback(ctx, &txmgrv1.RollbackRequest{Id: id1}); err != nil {
		t.Fatal(err)
	}
	_, err = c.Commit(ctx, &txmgrv1.CommitRequest{Id: id1})
	e := (*txn.Error)(nil)
	if err = wire.FromConnect(err); !errors.Is(err, txn.ErrRolledBack) || !errors.As(err, &e) || e.Cause != txn.CauseClient || fmt.Sprint(e.ID) != id1 {
		t.Errorf("%v", err)
	}
}
