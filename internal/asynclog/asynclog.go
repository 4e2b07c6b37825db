// Package asynclog makes a [slog.Logger] that never blocks its callers. Call [Wrap] once, and
// [Flush] before the process ends.
//
//	logger := asynclog.Wrap(slog.New(slog.NewTextHandler(os.Stderr, nil)))
//	defer asynclog.Flush(logger)
//
// A terminal or pipe that blocks must not stop a coordinator, in which raft logs from the
// goroutine that everything else waits for.
//
// # Invariants
//
//  1. A caller that logs never waits for the handler.
//  2. Lines are written in the order in which they were logged, one at a time.
//  3. At most 1,024 lines wait. Further lines are dropped, and the next line that is not
//     dropped reports their number as "unwritten".
//  4. A goroutine runs only while there is something to write: nothing has to be closed.
//
// Everything is safe for concurrent use.
//
// # What it does not do
//
// It does not format: values are read when their line is written, so they must not change
// after the call.
package asynclog

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	maxLines     = 1024 // that wait to be written
	flushTimeout = time.Second
)

// Wrap returns a logger that writes to l's handler asynchronously. It returns l itself if l
// is such a logger already.
func Wrap(l *slog.Logger) *slog.Logger {
	if _, ok := l.Handler().(handler); ok {
		return l
	}
	return slog.New(handler{l.Handler(), new(queue)})
}

// Flush returns when everything that was logged before is written, or after a second: a
// program must be able to end although its terminal blocks. For a logger that is not of
// [Wrap] it returns at once.
func Flush(l *slog.Logger) {
	h, ok := l.Handler().(handler)
	if !ok {
		return
	}
	select {
	case <-h.queue.flushed():
	case <-time.After(flushTimeout):
	}
}

// handler passes records to its inner handler through a queue, which it shares with the
// handlers derived from it.
type handler struct {
	slog.Handler
	queue *queue
}

// Handle implements [slog.Handler].
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	h.queue.add(line{ctx: ctx, to: h.Handler, record: r.Clone()})
	return nil
}

// WithAttrs implements [slog.Handler].
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs), h.queue}
}

// WithGroup implements [slog.Handler].
func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.Handler.WithGroup(name), h.queue}
}

// line is a record to be written, or a marker that those before it are written.
type line struct {
	ctx    context.Context
	to     slog.Handler
	record slog.Record
	done   chan struct{} // nil unless the line is a marker
}

type queue struct {
	mu      sync.Mutex
	waiting []line // guarded by mu
	writing bool   // guarded by mu: a goroutine is writing the waiting lines
	dropped int    // guarded by mu: lines dropped since the last one that was queued
}

func (q *queue) add(l line) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= maxLines {
		q.dropped++
		return
	}
	if q.dropped > 0 {
		l.record.AddAttrs(slog.Int("unwritten", q.dropped))
		q.dropped = 0
	}
	q.waiting = append(q.waiting, l)
	if !q.writing {
		q.writing = true
		go q.write()
	}
}

// flushed returns a channel that is closed when all waiting lines are written.
func (q *queue) flushed() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	done := make(chan struct{})
	if q.writing {
		q.waiting = append(q.waiting, line{done: done})
	} else {
		close(done)
	}
	return done
}

func (q *queue) write() {
	for l, ok := q.next(); ok; l, ok = q.next() {
		if l.done != nil {
			close(l.done)
			continue
		}
		_ = l.to.Handle(l.ctx, l.record) // ignored, as slog does: it could only be logged
	}
}

// next takes the next line. If there is none, it returns false, and the calling goroutine has
// to end.
func (q *queue) next() (l line, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.writing = false
		return line{}, false
	}
	l, q.waiting[0] = q.waiting[0], line{}
	q.waiting = q.waiting[1:]
	return l, true
}
