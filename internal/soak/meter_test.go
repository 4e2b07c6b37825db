package soak

import (
	"context"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/txn"
)

// meter is a [txn.Manager] whose calls are recorded.
type meter struct {
	*client.Client
	r *recorder
}

// metered makes a call that has a result.
func metered[T any](ctx context.Context, m *meter, name string, call func() (T, error)) (v T, err error) {
	err = m.r.call(name, ctx, func() error {
		v, err = call()
		return err
	})
	return v, err
}

func (m *meter) Begin(ctx context.Context, o txn.Options) (txn.Begun, error) {
	return metered(ctx, m, "Begin", func() (txn.Begun, error) { return m.Client.Begin(ctx, o) })
}

func (m *meter) Enlist(ctx context.Context, id txn.ID, e txn.Enlistment) (txn.Branch, error) {
	return metered(ctx, m, "Enlist", func() (txn.Branch, error) { return m.Client.Enlist(ctx, id, e) })
}

func (m *meter) Commit(ctx context.Context, id txn.ID, c txn.Commitment) (txn.Outcome, error) {
	return metered(ctx, m, "Commit", func() (txn.Outcome, error) { return m.Client.Commit(ctx, id, c) })
}

func (m *meter) Rollback(ctx context.Context, id txn.ID, reason string) (txn.Outcome, error) {
	return metered(ctx, m, "Rollback", func() (txn.Outcome, error) { return m.Client.Rollback(ctx, id, reason) })
}

func (m *meter) Vote(ctx context.Context, id txn.ID, b txn.Ballot) (txn.Outcome, error) {
	return metered(ctx, m, "Vote", func() (txn.Outcome, error) { return m.Client.Vote(ctx, id, b) })
}

func (m *meter) Delegate(ctx context.Context, id txn.ID, b txn.BranchID) (txn.Outcome, error) {
	return metered(ctx, m, "Delegate", func() (txn.Outcome, error) { return m.Client.Delegate(ctx, id, b) })
}

func (m *meter) Extend(ctx context.Context, id txn.ID, d time.Duration) (txn.Outcome, error) {
	return metered(ctx, m, "Extend", func() (txn.Outcome, error) { return m.Client.Extend(ctx, id, d) })
}

func (m *meter) Done(ctx context.Context, id txn.ID, acks ...txn.Ack) error {
	return m.r.call("Done", ctx, func() error { return m.Client.Done(ctx, id, acks...) })
}

func (m *meter) Get(ctx context.Context, id txn.ID) (txn.Info, error) {
	return metered(ctx, m, "Get", func() (txn.Info, error) { return m.Client.Get(ctx, id) })
}

func (m *meter) Wait(ctx context.Context, id txn.ID, goal txn.Goal) (txn.Info, error) {
	return metered(ctx, m, "Wait", func() (txn.Info, error) { return m.Client.Wait(ctx, id, goal) })
}
