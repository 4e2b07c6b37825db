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

// observation is one call that is over.
type observation struct {
	procedure *procedure
	id        txn.ID
	code      txn.Code
	took      time.Duration
	err       error // nil when it went well
	left      bool  // its caller has gone, so that the error says nothing about the coordinator
}

// observe counts a call and logs it: at debug when it went well, its caller left, or it was
// a wait that ended by its caller's time, at info when it was refused for a reason of the caller, else at warn. Lines about failures are
// limited, because they come by the ten thousand when there is no leader.
func (s *Server) observe(o observation) {
	o.procedure.timer.observe(o.code, o.took)
	level := slog.LevelDebug
	switch {
	case o.left, o.code == txn.CodeOK, o.code == txn.CodeTimedOut: // the last: a wait whose caller had enough of it
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
		slog.String("method", o.procedure.name), slog.String("code", string(o.code)), slog.Duration("duration", o.took),
	}
	if !o.id.IsZero() {
		attrs = append(attrs, slog.String("tx", o.id.String()))
	}
	if o.err != nil {
		ok, suppressed := s.failing.take(time.Now())
		if !ok {
			return
		}
		attrs = append(attrs, slog.String("error", o.err.Error()))
		if suppressed > 0 {
			attrs = append(attrs, slog.Uint64("suppressed", suppressed))
		}
	}
	s.log.LogAttrs(ctx, level, "call", attrs...)
}

// gone reports whether the caller of a call has left it.
func gone(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// observer is the interceptor around every decoded call: deadline, panics, the
// form of errors, and [Server.observe].
type observer struct{ s *Server }

// WrapUnary implements [connect.Interceptor].
func (o *observer) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (res connect.AnyResponse, err error) {
		x := exchangeOf(ctx)
		id := idOf(req.Any())
		err = o.watch(ctx, x, id, func(ctx context.Context) error {
			ctx, cancel := o.deadline(ctx, x.procedure.class)
			defer cancel()
			res, err = next(ctx, req)
			return err
		})
		return res, err
	}
}

// WrapStreamingHandler implements [connect.Interceptor].
func (o *observer) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return o.watch(ctx, exchangeOf(ctx), txn.ID{}, func(ctx context.Context) error { return next(ctx, conn) })
	}
}

// WrapStreamingClient implements [connect.Interceptor]; a server has none.
func (o *observer) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (o *observer) watch(ctx context.Context, x *exchange, id txn.ID, run func(context.Context) error) (err error) {
	started := time.Now()
	x.seen = true
	defer func() {
		if r := recover(); r != nil {
			if r == http.ErrAbortHandler {
				panic(r)
			}
			err = o.s.panicked(x.procedure, r)
		}
		if err == nil {
			o.s.observe(observation{procedure: x.procedure, id: id, code: txn.CodeOK, took: time.Since(started)})
			return
		}
		if e := (*connect.Error)(nil); errors.As(err, &e) {
			err = wire.FromConnect(err)
		}
		f := wire.FromError(err, x.procedure.op, id)
		o.s.observe(observation{procedure: x.procedure, id: id, code: txn.Code(f.GetCode()), took: time.Since(started), err: err, left: gone(ctx)})
		err = wire.ToConnect(f)
	}()
	return run(ctx)
}

// deadline gives a call its time; a call that waits is ended by the drain too.
func (o *observer) deadline(ctx context.Context, c class) (context.Context, context.CancelFunc) {
	limit := o.s.longest(c)
	if _, has := ctx.Deadline(); !has && c == unary {
		limit = o.s.cfg.CallTimeout
	}
	switch c {
	case unary:
		return context.WithTimeout(ctx, limit)
	case asking:
		ctx, cancel := context.WithTimeout(ctx, limit)
		ctx, stop := untilEnding(ctx)
		return ctx, func() { stop(); cancel() }
	default:
		return untilEnding(ctx)
	}
}

// untilEnding ends the context of a call with the reason when it has to end.
func untilEnding(ctx context.Context) (context.Context, context.CancelFunc) {
	ending := exchangeOf(ctx).ending
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(ending, func() { cancel(context.Cause(ending)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

var errInternal = errors.New("internal error")

// panicked logs what a handler of p panicked with; the caller learns only that.
func (s *Server) panicked(p *procedure, r any) error {
	s.log.Error("panic", "method", p.name, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	return errInternal
}

// idOf finds the transaction that a request names; zero when it names none, or
// a malformed one.
func idOf(request any) txn.ID {
	r, ok := request.(interface{ GetId() string })
	if !ok {
		return txn.ID{}
	}
	id, _ := txn.ParseID(r.GetId())
	return id
}
