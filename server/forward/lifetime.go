package forward

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// forwardGrace is how long the former leader may take to answer a forwarded call when another
// node leads. forwardMargin is added to the time that the client gave, because the leader's
// response is more precise than a timeout here.
const (
	forwardGrace  = time.Second
	forwardMargin = 500 * time.Millisecond
)

// boundLifetime cancels the call when its client's deadline has passed, or when a condition
// of the call no longer holds. The caller has to call release.
func (f *proxyCall) boundLifetime() (release func()) {
	var timers []*time.Timer
	if !f.Method.Bidi && !f.Method.Stream {
		timers = append(timers, time.AfterFunc(f.timeout(), func() { f.cancel(context.DeadlineExceeded) }))
	}
	grace := make(chan *time.Timer, 1)
	stop := context.AfterFunc(f.Lifetime, func() {
		cause := context.Cause(f.Lifetime)
		switch {
		case cause != f.forwarder.cfg.Draining:
			grace <- time.AfterFunc(forwardGrace, func() { f.cancel(cause) })
		case f.Method.EndsAtDrain:
			f.cancel(cause)
		}
	})
	return func() {
		stop()
		select {
		case t := <-grace:
			t.Stop()
		default: // a timer set after this has no effect: the call has ended
		}
		for _, t := range timers {
			t.Stop()
		}
	}
}

// timeout is how long to wait for a response: as long as the client does, plus forwardMargin.
func (f *proxyCall) timeout() time.Duration {
	limit := f.Timeout
	if d, ok := timeoutOf(f.Request.Header); ok {
		limit = min(d, f.MaxTimeout)
	}
	return limit + forwardMargin
}

// timeoutOf reads the timeout that a client sends, in the form of connect or of gRPC.
func timeoutOf(h http.Header) (time.Duration, bool) {
	if n, err := strconv.ParseUint(h.Get("Connect-Timeout-Ms"), 10, 33); err == nil {
		return time.Duration(n) * time.Millisecond, true
	}
	s := h.Get("Grpc-Timeout")
	if len(s) < 2 || len(s) > 9 {
		return 0, false
	}
	unit, ok := map[byte]time.Duration{
		'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
	}[s[len(s)-1]]
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 32)
	if !ok || err != nil {
		return 0, false
	}
	if time.Duration(n) > time.Hour/unit {
		return time.Hour, true // longer than any call may take
	}
	return time.Duration(n) * unit, true
}
