package main

import (
	"context"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/txn"
)

// tokenVariable holds the secret of a token. There is no flag for it: every user of the machine can
// read command lines.
const tokenVariable = "TXMGR_TOKEN"

// loadToken determines the token: --token-file takes precedence over TXMGR_TOKEN, which takes
// precedence over TXMGR_TOKEN_FILE.
func (a *app) loadToken(flags *pflag.FlagSet) {
	if f := flags.Lookup("token-file"); f != nil && f.Changed {
		return
	}
	if a.token = strings.TrimSpace(a.env(tokenVariable)); a.token != "" {
		a.tokenFile = ""
	}
}

// usesTLS reports whether certificates are given. Then an address without a scheme is an https
// address.
func (a *app) usesTLS() bool { return a.caCert != "" || a.cert != "" }

// dialAt returns a client for addresses that have been checked.
func (a *app) dialAt(address string) (*client.Client, error) {
	if address == client.DefaultAddress && a.usesTLS() {
		address = strings.Replace(address, "http://", "https://", 1)
	}
	if info, err := os.Stat(a.tokenFile); a.tokenFile != "" && err == nil && info.Mode().Perm()&0o077 != 0 {
		a.print.Note("other users can read the token: chmod 600 %s", a.tokenFile)
	}
	return client.Open(client.Config{
		Address: address, RequestTimeout: a.requestTimeout, Unary: true,
		FailFast: true,
		Token:    a.token, TokenFile: a.tokenFile,
		CACertFile: a.caCert, CertFile: a.cert, KeyFile: a.key,
		Log: slog.New(slog.DiscardHandler), // the program reports the errors itself
	})
}

// readCmd is [app.shortCmd] for a command that only reads: with --stale a node that lags behind may
// answer it.
func (a *app) readCmd(cmd *cobra.Command, body func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	var stale bool
	cmd.Flags().BoolVar(&stale, "stale", false, "let the node that is called answer from its own state, which may be out of date")
	return a.shortCmd(func(ctx context.Context, c *client.Client, args []string) error {
		if stale {
			ctx = txn.AllowStale(ctx)
		}
		return body(ctx, c, args)
	})
}
