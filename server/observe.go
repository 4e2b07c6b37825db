package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"connectrpc.com/connect"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

// observation is one call that has ended.
type observation struct {
	method     *rpcMethod
	id         txn.ID
	code       txn.Code
	took       time.Duration
	err        error // nil if the call succeeded
	callerGone bool  // so that the error says nothing about the coordinator
}

// observe counts a call and logs it: at debug if it succeeded, its caller is gone, or it was
// a wait that reached the caller's deadline; at info if it was refused for a reason on the
// caller's side; else at warn. Lines about failures are limited, because they come by the ten
// thousand when there is no leader.
func (s *Server) observe(o observation) {
	o.method.timer.observe(o.code, o.took)
	level := slog.LevelDebug
	switch {
	case o.callerGone, o.code == txn.CodeOK, o.code == txn.CodeTimedOut: // the last: a wait at its deadline
	case o.code == txn.CodeError, o.code == txn.CodeUnavailable, o.code == txn.CodeInDoubt, o.code == txn.CodeUnhealthy:
		level = slog.LevelWarn
	default:
		level = slog.LevelInfo
	}
	ctx := context.Background()
	if !s.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", o.method.name), slog.String("code", string(o.code)), slog.Duration("duration", o.took),
	}
	if !o.id.IsZero() {
		attrs = append(attrs, slog.String("tx", o.id.String()))
	}
	if o.err != nil {
		ok, suppressed := s.failureLog.Allow("")
		if !ok {
			return
		}
		attrs = append(attrs, slog.String("error", o.err.Error()))
		if suppressed > 0 {
			attrs = append(attrs, slog.Int("suppressed", suppressed))
		}
	}
	s.log.LogAttrs(ctx, level, "call", attrs...)
}

// callerGone reports whether the caller of a call has cancelled it or disconnected.
func callerGone(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// interceptor surrounds every decoded call: it sets the deadline, recovers panics, converts
// errors, and calls [Server.observe].
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
			err = o.s.panicked(x.method, r)
		}
		if err == nil {
			o.s.observe(observation{method: x.method, id: id, code: txn.CodeOK, took: time.Since(started)})
			return
		}
		if e := (*connect.Error)(nil); errors.As(err, &e) {
			err = wire.FromConnect(err)
		}
		f := wire.FromError(err, x.method.op, id)
		o.s.observe(observation{method: x.method, id: id, code: txn.Code(f.GetCode()), took: time.Since(started), err: err, callerGone: callerGone(ctx)})
		err = wire.ToConnect(f)
	}()
	return run(ctx)
}

// withDeadline sets the deadline of a call; a call that fans out, waits or streams also ends
// with its lifetime.
func (o *interceptor) withDeadline(ctx context.Context, c callClass) (context.Context, context.CancelFunc) {
	limit := o.s.timeoutLimit(c)
	if _, has := ctx.Deadline(); !has && c == unary {
		limit = o.s.cfg.CallTimeout
	}
	switch c {
	case unary:
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

var errInternal = errors.New("internal error")

// panicked logs the panic of a handler of p; the client gets "internal error" only.
func (s *Server) panicked(p *rpcMethod, r any) error {
	s.log.Error("panic", "method", p.name, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	return errInternal
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
