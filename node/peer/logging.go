package peer

import (
	"log/slog"

	"github.com/hashicorp/go-hclog"

	"github.com/txmgr/txmgr/internal/hclogslog"
)

// warn logs once a minute for each key, with the number of suppressed warnings: untrusted connections
// must not fill the log.
func (p *Server) warn(key, msg string, args ...any) {
	ok, suppressed := p.sampler.Allow(key)
	if !ok {
		return
	}
	if suppressed > 0 {
		args = append(args, "held_back", suppressed)
	}
	p.conf.Logger.Warn(msg, args...)
}

// raftLogger returns the logger of raft's transport, which reports the end of each stream as an error.
func (p *Server) raftLogger() hclog.Logger {
	return hclogslog.New(func(_ string, level slog.Level, msg string, args []any) {
		for _, a := range args {
			if err, ok := a.(error); ok && isDisconnect(err) {
				level = slog.LevelDebug
			}
		}
		if level > slog.LevelDebug {
			p.warn("raft "+msg, "raft's transport: "+msg, args...)
			return
		}
		p.conf.Logger.Debug("raft's transport: "+msg, args...)
	})
}
