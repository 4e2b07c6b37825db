package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
)

// app is one run of the command line: its streams, its environment, and the flags that all commands
// have.
type app struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) string

	address        string
	tokenFile      string
	token          string // from the environment; --token-file takes precedence
	caCert         string
	cert, key      string
	format         string
	color          string
	requestTimeout time.Duration
	quiet          bool
	yes            bool
	noInput        bool

	print *output.Printer // set by prepare, before any command runs
}

// run runs one command line and returns the exit code.
func (a *app) run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal has its default effect: it ends the process
	a.print = &output.Printer{Out: a.out, Err: a.err}
	root := rootCommand(a)
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = &output.Failure{Code: output.CodeInterrupted, What: "interrupted", Err: err}
	}
	if a.print.Format == "" { // the flags were not parsed completely
		a.print.Format, _ = output.ParseFormat(a.outputFormat(args))
	}
	return a.fail(err)
}

// fail prints an error and returns the exit code.
func (a *app) fail(err error) int {
	f := output.Explain(err)
	if f.Hint == output.Unreachable && a.address == client.DefaultAddress && !a.usesTLS() {
		f.Hint = "set --address or TXMGR_ADDR to the address of the coordinator; txmgr dev starts a temporary one"
	}
	return a.print.Fail(f)
}

// withHangup returns a context for commands that clean up: it also ends on SIGHUP, unless nohup has
// made the process ignore that signal.
func withHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return ctx, func() {}
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// prepare determines the values of the flags that all commands have: flags take precedence over the
// environment, and the environment over defaults.
func (a *app) prepare(cmd *cobra.Command) error {
	if err := fromEnvironment(cmd.Flags(), a.env, globalEnvironment()); err != nil {
		return err
	}
	if a.requestTimeout <= 0 {
		return output.Usage("give a positive duration, for example 10s", "--request-timeout is %v", a.requestTimeout)
	}
	format, err := output.ParseFormat(a.format)
	if err != nil {
		return err
	}
	a.loadToken(cmd.Flags())
	noColor := a.env("NO_COLOR") != "" || a.env("TERM") == "dumb"
	a.print = &output.Printer{
		Out: a.out, Err: a.err, Format: format, Quiet: a.quiet,
		ColorOut: output.ColorFor(a.color, noColor, a.out),
		ColorErr: output.ColorFor(a.color, noColor, a.err),
		Width:    output.WidthOf(a.out),
	}
	switch a.color {
	case "auto", "always", "never":
		return nil
	}
	return output.Usage("use auto, always or never", "--color is %q", a.color)
}

// outputFormat returns the output format that a command line asks for, even if the rest of the line
// cannot be parsed.
func (a *app) outputFormat(args []string) string {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.ParseErrorsAllowlist.UnknownFlags = true
	f.Usage = func() {}
	format := f.StringP("output", "o", a.env("TXMGR_OUTPUT"), "")
	_ = f.Parse(args) // errors of parsing are reported already
	return *format
}

// dial returns a client. It does not connect yet.
func (a *app) dial() (*client.Client, error) {
	address, err := checkAddress(a.address, a.usesTLS())
	if err != nil {
		return nil, err
	}
	return a.dialAt(address)
}

// clientCmd returns the RunE function of a command that calls a coordinator.
func (a *app) clientCmd(body func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.dial()
		if err != nil {
			return err
		}
		return errors.Join(body(cmd.Context(), c, args), c.Close())
	}
}

// fanoutCmd is [app.clientCmd] for a command that makes the coordinator call participants. The call
// takes as long as the participants take, so the client's request timeout does not apply, unless
// --request-timeout is given.
func (a *app) fanoutCmd(body func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return a.clientCmd(func(ctx context.Context, c *client.Client, args []string) error {
		ctx, cancel := a.withTimeout(ctx)
		defer cancel()
		return body(ctx, c, args)
	})
}

// withTimeout bounds a call that makes the coordinator call participants by --request-timeout, if
// it is given.
func (a *app) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.requestTimeout == defaultRequestTimeout {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, a.requestTimeout)
}

// shortCmd is [app.clientCmd] for a command that completes after a few calls: all of them share
// --request-timeout.
func (a *app) shortCmd(body func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return a.clientCmd(func(ctx context.Context, c *client.Client, args []string) error {
		ctx, cancel := context.WithTimeout(ctx, a.requestTimeout)
		defer cancel()
		return body(ctx, c, args)
	})
}
