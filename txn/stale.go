package txn

import "context"

type staleKey struct{}

// AllowStale marks calls that may be answered by a node that does not lead, from what it has
// applied so far: [Manager.Get] and the lists. Decisions are made by the leader all the same.
func AllowStale(ctx context.Context) context.Context {
	return context.WithValue(ctx, staleKey{}, true)
}

// StaleAllowed reports whether [AllowStale] was called.
func StaleAllowed(ctx context.Context) bool {
	allowed, _ := ctx.Value(staleKey{}).(bool)
	return allowed
}
