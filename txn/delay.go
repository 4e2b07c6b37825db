package txn

import "context"

type delayKey struct{}

// AllowDelay marks a call of [Manager.ReportCompletion] whose result the caller does not need:
// it may return before the report was sent, which then leaves with the next call, or after 5 ms.
// A report that gets lost is made up for by recovery, as that of a client that has crashed: it
// asks the participant when the client's grace period is over.
func AllowDelay(ctx context.Context) context.Context {
	return context.WithValue(ctx, delayKey{}, true)
}

// DelayAllowed reports whether [AllowDelay] was called.
func DelayAllowed(ctx context.Context) bool {
	allowed, _ := ctx.Value(delayKey{}).(bool)
	return allowed
}
