package cli

import (
	"context"
	"errors"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/txn"
)

// ClientCmd returns the RunE function of a command that calls a coordinator.
func (a *App) ClientCmd(body func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.dial()
		if err != nil {
			return err
		}
		return errors.Join(body(cmd.Context(), c, args), c.Close())
	}
}

// ShortCmd is [App.ClientCmd] for a command that completes after a few calls: all of them share
// --request-timeout.
func (a *App) ShortCmd(body func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return a.ClientCmd(func(ctx context.Context, c *client.Client, args []string) error {
		ctx, cancel := context.WithTimeout(ctx, a.RequestTimeout)
		defer cancel()
		return body(ctx, c, args)
	})
}

// ReadCmd is [App.ShortCmd] for a command that only reads: with --stale a node that lags behind may
// answer it.
func (a *App) ReadCmd(cmd *cobra.Command, body func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	var stale bool
	cmd.Flags().BoolVar(&stale, "stale", false, "let the node that is called answer from its own state, which may be out of date")
	return a.ShortCmd(func(ctx context.Context, c *client.Client, args []string) error {
		if stale {
			ctx = txn.AllowStale(ctx)
		}
		return body(ctx, c, args)
	})
}

// FanoutCmd is [App.ClientCmd] for a command that makes the coordinator call participants. The call
// takes as long as the participants take, so the client's request timeout does not apply, unless
// --request-timeout is given.
func (a *App) FanoutCmd(body func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return a.ClientCmd(func(ctx context.Context, c *client.Client, args []string) error {
		ctx, cancel := a.WithTimeout(ctx)
		defer cancel()
		return body(ctx, c, args)
	})
}

// WithTimeout bounds a call that makes the coordinator call participants by --request-timeout, if
// it is given.
func (a *App) WithTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.RequestTimeout == defaultRequestTimeout {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, a.RequestTimeout)
}

// WithHangup returns a context for commands that clean up: it also ends on SIGHUP, unless nohup has
// made the process ignore that signal.
func WithHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return ctx, func() {}
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}
