package peer

import (
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	sampleInterval = time.Minute
	maxSampleKeys  = 256
)

// logSampler keeps untrusted connections from filling the log: each kind of warning is logged
// once a minute, with the number of suppressed ones.
type logSampler struct {
	logger *slog.Logger

	mu   sync.Mutex // guards last
	last map[string]*sampleEntry
}

type sampleEntry struct {
	at         time.Time
	suppressed int
}

func newLogSampler(l *slog.Logger) *logSampler {
	return &logSampler{logger: l, last: map[string]*sampleEntry{}}
}

// warn logs unless it has logged for the same key within a minute. When there are too many keys,
// further ones share one.
func (n *logSampler) warn(key, msg string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	e := n.last[key]
	if e == nil && len(n.last) >= maxSampleKeys {
		for k, old := range n.last {
			if now.Sub(old.at) >= sampleInterval {
				delete(n.last, k)
			}
		}
		if len(n.last) >= maxSampleKeys {
			key = ""
			e = n.last[key]
		}
	}
	switch {
	case e == nil:
		e = &sampleEntry{}
		n.last[key] = e
	case now.Sub(e.at) < sampleInterval:
		e.suppressed++
		return
	}
	if e.suppressed > 0 {
		args = append(args, "held_back", e.suppressed)
	}
	e.at, e.suppressed = now, 0
	n.logger.Warn(msg, args...)
}

// raftLogger passes the messages of raft's transport to n. The transport reports the end of each
// stream as an error.
func raftLogger(n *logSampler) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Debug})
	l.RegisterSink(raftSink{n})
	return l
}

type raftSink struct{ sampler *logSampler }

// Accept implements hclog.SinkAdapter.
func (s raftSink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	for _, a := range args {
		if err, ok := a.(error); ok && isDisconnect(err) {
			level = hclog.Debug
		}
	}
	if level >= hclog.Warn {
		s.sampler.warn("raft "+msg, "raft's transport: "+msg, args...)
		return
	}
	s.sampler.logger.Debug("raft's transport: "+msg, args...)
}
