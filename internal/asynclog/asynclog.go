// Package asynclog keeps a log from holding up those who write into it: a terminal or pipe that is stuck must not stop a
// coordinator, in which raft logs from the goroutine that everything else waits for.
//
// # Invariants
//
//  1. Whoever logs never waits for the handler.
//  2. Lines are written in the order in which they were logged, one at a time.
//  3. At most 1,024 lines wait. More are left out, and the next one that is not tells how many were, as "unwritten".
//  4. A goroutine runs only while there is something to write: nothing has to be closed.
//
// Everything may be called by several goroutines at once.
//
// # What it does not do
//
// It does not format: values are read when their line is written, so they must not change any more.
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

// Wrap gives a logger that writes what l does, and waits for nobody. If l is such a logger already it is l.
func Wrap(l *slog.Logger) *slog.Logger {
	if _, ok := l.Handler().(handler); ok {
		return l
	}
	return slog.New(handler{l.Handler(), new(queue)})
}

// Flush returns when everything that was logged before is written, or after a second: a program must be able to end although
// its terminal takes nothing. Of a logger that is not of [Wrap] nothing waits.
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

// handler hands over to the handler behind it by a queue, which it shares with those that were made of it.
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

// line waits to be written, or tells that those before it are.
type line struct {
	ctx    context.Context
	to     slog.Handler
	record slog.Record
	done   chan struct{} // nil unless it only tells
}

type queue struct {
	mu      sync.Mutex
	waiting []line // guarded by mu
	writing bool   // guarded by mu: a goroutine takes what is waiting
	dropped int    // guarded by mu: lines that found the queue full since the last one that did not
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

// flushed gives what is closed when all that waits is written.
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
		_ = l.to.Handle(l.ctx, l.record) // as slog does: nobody could be told but by the log
	}
}

// next takes the next line. When there is none, this goroutine writes no more.
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
