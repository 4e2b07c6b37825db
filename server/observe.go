package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/txmgr/txmgr/internal/logsample"
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

// observer counts and logs the calls that have ended.
type observer struct {
	log      *slog.Logger
	failures *logsample.Sampler // of log lines about failed calls
}

// observe counts a call and logs it: at debug if it succeeded, its caller is gone, or it was
// a wait that reached the caller's deadline; at info if it was refused for a reason on the
// caller's side; else at warn. Lines about failures are limited, because they come by the ten
// thousand when there is no leader.
func (b *observer) observe(o observation) {
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
	if !b.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", o.method.name), slog.String("code", string(o.code)), slog.Duration("duration", o.took),
	}
	if !o.id.IsZero() {
		attrs = append(attrs, slog.String("tx", o.id.String()))
	}
	if o.err != nil {
		ok, suppressed := b.failures.Allow("")
		if !ok {
			return
		}
		attrs = append(attrs, slog.String("error", o.err.Error()))
		if suppressed > 0 {
			attrs = append(attrs, slog.Int("suppressed", suppressed))
		}
	}
	b.log.LogAttrs(ctx, level, "call", attrs...)
}

// callerGone reports whether the caller of a call has cancelled it or disconnected.
func callerGone(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

var errInternal = errors.New("internal error")

// panicked logs the panic of a handler of p; the client gets "internal error" only.
func (b *observer) panicked(p *rpcMethod, r any) error {
	b.log.Error("panic", "method", p.name, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	return errInternal
}
