package peer

import (
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	noticeEvery = time.Minute
	maxNotices  = 256
)

// notices keeps those who knock from filling the log: each kind of warning is given
// once a minute, with how often it was held back.
type notices struct {
	logger *slog.Logger

	mu   sync.Mutex // guards last
	last map[string]*notice
}

type notice struct {
	at   time.Time
	held int
}

func newNotices(l *slog.Logger) *notices { return &notices{logger: l, last: map[string]*notice{}} }

// warn logs unless it has done so for the same key within a minute. Keys that come
// when there are too many share one.
func (n *notices) warn(key, msg string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	e := n.last[key]
	if e == nil && len(n.last) >= maxNotices {
		for k, old := range n.last {
			if now.Sub(old.at) >= noticeEvery {
				delete(n.last, k)
			}
		}
		if len(n.last) >= maxNotices {
			key = ""
			e = n.last[key]
		}
	}
	switch {
	case e == nil:
		e = &notice{}
		n.last[key] = e
	case now.Sub(e.at) < noticeEvery:
		e.held++
		return
	}
	if e.held > 0 {
		args = append(args, "held_back", e.held)
	}
	e.at, e.held = now, 0
	n.logger.Warn(msg, args...)
}

// raftLogger gives what raft's transport says to n. It speaks of each stream that
// ends as of an error.
func raftLogger(n *notices) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Debug})
	l.RegisterSink(raftSink{n})
	return l
}

type raftSink struct{ notices *notices }

// Accept implements hclog.SinkAdapter.
func (s raftSink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	for _, a := range args {
		if err, ok := a.(error); ok && knocked(err) {
			level = hclog.Debug
		}
	}
	if level >= hclog.Warn {
		s.notices.warn("raft "+msg, "raft's transport: "+msg, args...)
		return
	}
	s.notices.logger.Debug("raft's transport: "+msg, args...)
}
