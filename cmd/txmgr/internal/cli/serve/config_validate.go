package serve

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/internal/certs"
	"github.com/txmgr/txmgr/txn"
)

func configValidateCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE",
		Short: "Validate the settings of a server",
		Long: `Validate the settings of a server before it is started with them: that every key is known
and every value possible, that certificates can be read, belong to their keys, are valid
now and are accepted by nodes, and that nothing is exposed to the network without
protection. All problems are printed, with exit code 2.`,
		Example:           "  txmgr config validate /etc/txmgr/server.yaml",
		Args:              cli.ArgCount(1, 1, "FILE"),
		ValidArgsFunction: cli.CompleteFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			o, _, err := settings(a, args)
			if err != nil {
				return err
			}
			if err := o.validate(); err != nil {
				all := strings.Split(err.Error(), "\n")
				return &output.Failure{
					Code: txn.CodeUsage, What: args[0] + ": " + output.Plural(len(all), "problem", "problems"),
					Cause: strings.Join(all, "\n"), Hint: "txmgr server --help describes the settings", Err: err,
				}
			}
			mode := "alone"
			if !o.singleNode() {
				mode = "cluster"
			}
			t := output.Table{Columns: output.Columns("FILE", "VALID", "MODE")}
			t.Add(args[0], "yes", mode)
			return a.Print.Print(output.Document{
				Value: map[string]any{"file": args[0], "valid": true, "mode": mode}, IDs: args, Tables: []output.Table{t},
			})
		},
	}
}

// validate finds settings with which a server would not start, without starting one.
func (o *serverOptions) validate() error {
	quiet := slog.New(slog.DiscardHandler)
	var errs []error
	note := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	if o.dataDir == "" {
		errs = append(errs, errors.New("data_dir: no directory given"))
	}
	_, err := o.logger(io.Discard)
	note("log", err)
	_, err = o.nodeConfig(quiet)
	note("recovery_optimizer", err)
	api, err := net.ResolveTCPAddr("tcp", o.listen)
	note("listen", err)
	if err == nil {
		note("listen", o.checkExposed(api))
		_, err := o.cluster(api, o.scheme(), o.insecure)
		note("cluster", err)
	}
	note("server", o.serverConfig(quiet).Check())
	if o.peerCert != "" || o.peerKey != "" || o.peerCA != "" {
		_, err := certs.OpenPeer(certs.Files{Cert: o.peerCert, Key: o.peerKey, CA: o.peerCA}, quiet)
		note("peer", err)
	}
	return errors.Join(errs...)
}
