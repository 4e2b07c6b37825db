package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

// interceptor surrounds every decoded call: it sets the deadline, recovers panics, converts
// errors, and calls [observer.observe].
type interceptor struct{ s *Server }

// WrapUnary implements [connect.Interceptor].
func (o *interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (res connect.AnyResponse, err error) {
		x := callFrom(ctx)
		id := idOf(req.Any())
		err = o.observeCall(ctx, x, id, func(ctx context.Context) error {
			ctx, cancel := o.withDeadline(ctx, x.method.class)
			defer cancel()
			res, err = next(ctx, req)
			return err
		})
		return res, err
	}
}

// WrapStreamingHandler implements [connect.Interceptor].
func (o *interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return o.observeCall(ctx, callFrom(ctx), txn.ID{}, func(ctx context.Context) error { return next(ctx, conn) })
	}
}

// WrapStreamingClient implements [connect.Interceptor]; a server has none.
func (o *interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (o *interceptor) observeCall(ctx context.Context, x *callState, id txn.ID, run func(context.Context) error) (err error) {
	started := time.Now()
	x.observed = true
	defer func() {
		if r := recover(); r != nil {
			if r == http.ErrAbortHandler {
				panic(r)
			}
			err = o.s.observer.panicked(x.method, r)
		}
		if err == nil {
			o.s.observer.observe(observation{method: x.method, id: id, code: txn.CodeOK, took: time.Since(started)})
			return
		}
		if e := (*connect.Error)(nil); errors.As(err, &e) {
			err = wire.FromConnect(err)
		}
		f := wire.FromError(err, x.method.op, id)
		o.s.observer.observe(observation{method: x.method, id: id, code: txn.Code(f.GetCode()), took: time.Since(started), err: err, callerGone: callerGone(ctx)})
		err = wire.ToConnect(f)
	}()
	return run(ctx)
}

// withDeadline sets the deadline of a call; a call that fans out, waits or streams also ends
// with its lifetime.
func (o *interceptor) withDeadline(ctx context.Context, c callClass) (context.Context, context.CancelFunc) {
	limit := o.s.timeoutLimit(c)
	until, has := ctx.Deadline()
	if !has && c == unary {
		limit = o.s.cfg.CallTimeout
	}
	switch c {
	case unary:
		if has && time.Until(until) <= limit {
			return ctx, func() {} // connect has set the deadline that the client sent
		}
		return context.WithTimeout(ctx, limit)
	case fanout:
		ctx, cancel := context.WithTimeout(ctx, limit)
		ctx, stop := withLifetime(ctx)
		return ctx, func() { stop(); cancel() }
	default:
		return withLifetime(ctx)
	}
}

// withLifetime returns a context that also ends with the lifetime of the call, with its
// cause.
func withLifetime(ctx context.Context) (context.Context, context.CancelFunc) {
	lifetime := callFrom(ctx).lifetime
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(lifetime, func() { cancel(context.Cause(lifetime)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// idOf returns the transaction that a request names; zero if it names none, or a malformed
// one.
func idOf(request any) txn.ID {
	r, ok := request.(interface{ GetId() string })
	if !ok {
		return txn.ID{}
	}
	id, _ := txn.ParseID(r.GetId())
	return id
}
