package serve

import (
	"io"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
)

// logOptions configure the log of a server.
type logOptions struct {
	logLevel  string
	logFormat string
}

func (o *logOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "", "log format: text or json (default text, or json with --output json)")
}

// logger is the log of a server, on standard error, in the format of the errors there.
func logger(a *cli.App, o logOptions) (*slog.Logger, error) {
	if o.logFormat == "" && a.Print.Format.Structured() {
		o.logFormat = "json"
	}
	return o.logger(a.Err)
}

// logger returns the log of a server.
func (o *logOptions) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return nil, output.Usage("debug, info, warn or error", "--log-level is %q", o.logLevel)
	}
	options := &slog.HandlerOptions{Level: level}
	switch o.logFormat {
	case "text", "":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, output.Usage("text or json", "--log-format is %q", o.logFormat)
}
