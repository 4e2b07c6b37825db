package server

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// readAborter lets another goroutine end the reading of a request's body while the handler
// runs; afterwards the request belongs to net/http again.
type readAborter struct {
	mu sync.Mutex
	rc *http.ResponseController // nil when the handler has returned
}

func (i *readAborter) abort() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.rc != nil {
		_ = i.rc.SetReadDeadline(time.Unix(1, 0)) // every HTTP/2 stream can
	}
}

func (i *readAborter) release() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rc = nil
}

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
