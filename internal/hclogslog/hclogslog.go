// Package hclogslog passes what hashicorp/raft logs to slog.
package hclogslog

import (
	"io"
	"log/slog"
	"slices"

	"github.com/hashicorp/go-hclog"
)

// New returns a logger that calls write for each message, with the name of the logger that it comes from.
// The levels are debug, warning and error: raft reports nothing to users below a warning. write may
// change args.
func New(write func(name string, level slog.Level, msg string, args []any)) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Debug})
	l.RegisterSink(&sink{write})
	return l
}

type sink struct {
	write func(name string, level slog.Level, msg string, args []any)
}

// Accept implements hclog.SinkAdapter.
func (s *sink) Accept(name string, level hclog.Level, msg string, args ...any) {
	to := slog.LevelDebug
	switch {
	case level >= hclog.Error:
		to = slog.LevelError
	case level == hclog.Warn:
		to = slog.LevelWarn
	}
	s.write(name, to, msg, slices.Clone(args))
}
