package soak

import (
	"context"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/txn"
)

// recordingClient is a [txn.Manager] whose calls are recorded.
type recordingClient struct {
	*client.Client
	r *recorder
}

// recordCall makes a call that has a result.
func recordCall[T any](ctx context.Context, m *recordingClient, name string, call func() (T, error)) (v T, err error) {
	err = m.r.call(name, ctx, func() error {
		v, err = call()
		return err
	})
	return v, err
}

func (m *recordingClient) Begin(ctx context.Context, o txn.Options) (txn.BeginResult, error) {
	return recordCall(ctx, m, "Begin", func() (txn.BeginResult, error) { return m.Client.Begin(ctx, o) })
}

func (m *recordingClient) Enlist(ctx context.Context, id txn.ID, e txn.Enlistment) (txn.Branch, error) {
	return recordCall(ctx, m, "Enlist", func() (txn.Branch, error) { return m.Client.Enlist(ctx, id, e) })
}

func (m *recordingClient) Commit(ctx context.Context, id txn.ID, c txn.CommitRequest) (txn.Outcome, error) {
	return recordCall(ctx, m, "Commit", func() (txn.Outcome, error) { return m.Client.Commit(ctx, id, c) })
}

func (m *recordingClient) Rollback(ctx context.Context, id txn.ID, reason string) (txn.Outcome, error) {
	return recordCall(ctx, m, "Rollback", func() (txn.Outcome, error) { return m.Client.Rollback(ctx, id, reason) })
}

func (m *recordingClient) Vote(ctx context.Context, id txn.ID, b txn.Votes) (txn.Outcome, error) {
	return recordCall(ctx, m, "Vote", func() (txn.Outcome, error) { return m.Client.Vote(ctx, id, b) })
}

func (m *recordingClient) Delegate(ctx context.Context, id txn.ID, b txn.BranchID) (txn.Outcome, error) {
	return recordCall(ctx, m, "Delegate", func() (txn.Outcome, error) { return m.Client.Delegate(ctx, id, b) })
}

func (m *recordingClient) Extend(ctx context.Context, id txn.ID, d time.Duration) (txn.Outcome, error) {
	return recordCall(ctx, m, "Extend", func() (txn.Outcome, error) { return m.Client.Extend(ctx, id, d) })
}

func (m *recordingClient) ReportCompletion(ctx context.Context, id txn.ID, acks ...txn.CompletionReport) error {
	return m.r.call("ReportCompletion", ctx, func() error { return m.Client.ReportCompletion(ctx, id, acks...) })
}

func (m *recordingClient) Get(ctx context.Context, id txn.ID) (txn.Info, error) {
	return recordCall(ctx, m, "Get", func() (txn.Info, error) { return m.Client.Get(ctx, id) })
}

func (m *recordingClient) Wait(ctx context.Context, id txn.ID, goal txn.Goal) (txn.Info, error) {
	return recordCall(ctx, m, "Wait", func() (txn.Info, error) { return m.Client.Wait(ctx, id, goal) })
}
