package pipeline

import (
	"context"
	"time"
)

// deadlinePool makes contexts that commands share, at most one per second. It is used by one
// goroutine.
type deadlinePool struct {
	parent  context.Context
	timeout time.Duration
	created time.Time
	current context.Context
	cancels []context.CancelFunc // oldest first; released when surely expired
}

// contextFor returns a context that ends between timeout and timeout plus one second after
// now.
func (e *deadlinePool) contextFor(now time.Time) context.Context {
	if e.current != nil && now.Sub(e.created) < time.Second {
		return e.current
	}
	if len(e.cancels) > int(e.timeout/time.Second)+2 {
		e.cancels[0]()
		e.cancels = append(e.cancels[:0], e.cancels[1:]...)
	}
	ctx, cancel := context.WithTimeout(e.parent, e.timeout+time.Second)
	e.created, e.current, e.cancels = now, ctx, append(e.cancels, cancel)
	return ctx
}
