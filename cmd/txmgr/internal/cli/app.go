package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
)

// App is one run of the command line: its streams, its environment, and the flags that all commands
// have. The streams and the environment are set by its maker, and the rest from the command line.
type App struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) string // the value of an environment variable

	// Print prints the results of commands. Prepare sets it, before any command runs.
	Print *output.Printer
	// RequestTimeout is the time to wait for the coordinator: --request-timeout.
	RequestTimeout time.Duration
	// Quiet is --quiet: no notes and no progress.
	Quiet bool
	connection
	format  string
	color   string
	yes     bool
	noInput bool
}

// Run runs one command line and returns the exit code. root is the command that was made for a.
func (a *App) Run(root *cobra.Command, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal has its default effect: it ends the process
	a.Print = &output.Printer{Out: a.Out, Err: a.Err}
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = &output.Failure{Code: output.CodeInterrupted, What: "interrupted", Err: err}
	}
	if a.Print.Format == "" { // the flags were not parsed completely
		a.Print.Format, _ = output.ParseFormat(a.outputFormat(args))
	}
	return a.Fail(err)
}

// Fail prints an error and returns the exit code.
func (a *App) Fail(err error) int {
	f := output.Explain(err)
	if f.Hint == output.Unreachable && a.Address == client.DefaultAddress && !a.usesTLS() {
		f.Hint = "set --address or TXMGR_ADDR to the address of the coordinator; txmgr dev starts a temporary one"
	}
	return a.Print.Fail(f)
}
