package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

func (t *transactionService) Get(ctx context.Context, r *txmgrv1.GetRequest) (*txmgrv1.Transaction, error) {
	id, err := txn.ParseID(r.GetId())
	if err != nil {
		return nil, err
	}
	i, err := t.c.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return wire.FromInfo(i), nil
}

func (t *transactionService) List(ctx context.Context, r *txmgrv1.Filter) (*txmgrv1.ListResponse, error) {
	f, err := wire.ToFilter(r)
	if err != nil {
		return nil, err
	}
	reserved, err := t.lists.Reserve(f.Limit)
	if err != nil {
		return nil, err
	}
	x := callFrom(ctx)
	x.listReserved = reserved // until the list is sent
	infos, err := t.c.List(ctx, f)
	if err != nil {
		return nil, err
	}
	t.lists.Release(reserved - int64(len(infos)))
	x.listReserved = int64(len(infos))
	res := &txmgrv1.ListResponse{Transactions: make([]*txmgrv1.Transaction, len(infos))}
	for n, i := range infos {
		res.Transactions[n] = wire.FromInfo(i)
	}
	return res, nil
}

// Goals of Wait in the API.
const (
	goalFinished = "finished"
	goalDecided  = "decided"
)

func (t *transactionService) Wait(ctx context.Context, r *txmgrv1.WaitRequest) (*txmgrv1.Transaction, error) {
	id, err := txn.ParseID(r.GetId())
	if err != nil {
		return nil, err
	}
	goal := txn.UntilFinished
	switch r.GetGoal() {
	case "", goalFinished:
	case goalDecided:
		goal = txn.UntilDecided
	default:
		return nil, fmt.Errorf("%w: unknown goal %q: want %s or %s", txn.ErrInvalid, r.GetGoal(), goalFinished, goalDecided)
	}
	limit, err := wire.ParseDuration("timeout", r.GetTimeout())
	if err != nil {
		return nil, err
	}
	if limit == 0 || limit > t.maxWait {
		limit = t.maxWait
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	i, err := t.c.Wait(ctx, id, goal)
	if err != nil {
		if cause := context.Cause(callFrom(ctx).lifetime); cause != nil && errors.Is(err, txn.ErrWaitTimeout) {
			err = cause // so that the client continues to wait at another node
		}
		return nil, err
	}
	return wire.FromInfo(i), nil
}

// eventWriteTimeout is how long a client may take to receive one event before its watch is
// ended.
const eventWriteTimeout = 30 * time.Second

func (t *transactionService) Watch(ctx context.Context, r *txmgrv1.Filter, stream *connect.ServerStream[txmgrv1.Event]) error {
	f, err := wire.ToFilter(r)
	if err != nil {
		return err
	}
	x := callFrom(ctx)
	ctx, cancel := withLifetime(ctx)
	defer cancel()
	// The headers tell the client that it is watching, before there is an event. Only sending
	// has a deadline: events may be days apart.
	send := func(e *txmgrv1.Event) error {
		_ = x.rc.SetWriteDeadline(time.Now().Add(eventWriteTimeout))
		defer func() { _ = x.rc.SetWriteDeadline(time.Time{}) }()
		return stream.Send(e)
	}
	if err := send(nil); err != nil {
		return nil
	}
	for e, err := range t.c.Watch(ctx, f) {
		if err != nil {
			return endOfWatch(ctx, err)
		}
		if err := send(wire.FromEvent(e)); err != nil {
			return nil // the client is gone
		}
	}
	return endOfWatch(ctx, nil)
}

// endOfWatch is the error of a watch: nil if the client has left, and the cause if the server
// ends it.
func endOfWatch(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, txn.ErrUnavailable), errors.Is(cause, txn.ErrDenied):
		return cause
	case errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("%w: the caller's time for the watch is over", txn.ErrWaitTimeout)
	case cause != nil:
		return nil
	default:
		return err
	}
}
