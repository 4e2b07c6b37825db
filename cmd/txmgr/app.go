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

// app is one run of the command line: where it reads, writes and looks for its
// environment, and the flags that all commands have.
type app struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) string

	address        string
	tokenFile      string
	token          string // of the environment; --token-file beats it
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

// run carries out one command line and gives the exit code.
func (a *app) run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal is not ours any more: it ends the process
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
	if a.print.Format == "" { // the flags could not be read to their end
		a.print.Format, _ = output.ParseFormat(a.outputFormat(args))
	}
	return a.fail(err)
}

// fail prints an error and gives the exit code.
func (a *app) fail(err error) int {
	f := output.Explain(err)
	if f.Next == output.Unreachable && a.address == client.DefaultAddress && !a.usesTLS() {
		f.Next = "--address or TXMGR_ADDR names the coordinator; txmgr dev starts one to try things on"
	}
	return a.print.Fail(f)
}

// withHangup gives what is to be tidied up a context that also ends with the terminal,
// unless nohup says that it shall not.
func withHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return ctx, func() {}
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// prepare settles the flags that all commands have: flags beat environment, and
// environment beats defaults.
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
	return output.Usage("auto, always or never", "--color is %q", a.color)
}

// outputFormat is the format that was asked for by a command line of which no more may
// be understood.
func (a *app) outputFormat(args []string) string {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.ParseErrorsAllowlist.UnknownFlags = true
	f.Usage = func() {}
	format := f.StringP("output", "o", a.env("TXMGR_OUTPUT"), "")
	_ = f.Parse(args) // what is wrong with them is said already
	return *format
}

// dial gives a client. It does not talk to the coordinator yet.
func (a *app) dial() (*client.Client, error) {
	address, err := checkAddress(a.address, a.usesTLS())
	if err != nil {
		return nil, err
	}
	return a.dialAt(address)
}

// clientCmd makes the body of a command that talks to a coordinator.
func (a *app) clientCmd(body func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.dial()
		if err != nil {
			return err
		}
		return errors.Join(body(cmd.Context(), c, args), c.Close())
	}
}

// fanoutCmd is online for a command that makes the coordinator ask participants,
// which takes as long as they do: the client has more patience with it, unless a
// person said how much.
func (a *app) fanoutCmd(body func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return a.clientCmd(func(ctx context.Context, c *client.Client, args []string) error {
		ctx, cancel := a.withTimeout(ctx)
		defer cancel()
		return body(ctx, c, args)
	})
}

// withTimeout bounds a call that asks participants by what a person said, if he did.
func (a *app) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.requestTimeout == defaultRequestTimeout {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, a.requestTimeout)
}

// shortCmd is online for a command that is done after a few calls: all of them
// share the patience of --request-timeout.
func (a *app) shortCmd(body func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return a.clientCmd(func(ctx context.Context, c *client.Client, args []string) error {
		ctx, cancel := context.WithTimeout(ctx, a.requestTimeout)
		defer cancel()
		return body(ctx, c, args)
	})
}
