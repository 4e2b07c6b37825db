package serve

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/drivers"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/internal/asynclog"
	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/server"
)

type serverOptions struct {
	config         string
	dataDir        string
	listen         string
	insecure       bool
	addressFile    string
	interval       time.Duration
	retention      time.Duration
	defaultTimeout time.Duration
	maxTimeout     time.Duration
	sweepInterval  time.Duration
	snapshotBytes  uint64
	optimizer      string
	logOptions
	clusterOptions
	authOptions
}

// ServerCommand returns txmgr server.
func ServerCommand(a *cli.App) *cobra.Command {
	var o serverOptions
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run a coordinator",
		Long: `Run a coordinator whose log is in --data-dir. It is ready when /readyz answers 200.

It is a single node unless other nodes are named. Three nodes form a cluster when each is
started with --bootstrap-expect 3 and --join with the addresses of all of them; they wait
for one another, and /readyz reports which nodes are missing. A node with an empty data
directory and --join alone asks to be added to the cluster that it finds there. A node
that has been part of a cluster continues in it, whatever the values of these flags.

An address beyond loopback needs TLS, --tls-cert and --tls-key, and authentication, --auth
or --root-token-file; and between nodes --peer-cert, --peer-key and --peer-ca. txmgr
config init creates all of them. Certificates and the root token are read again when they
change; no signal is needed, and SIGHUP does no harm.

SIGTERM and SIGINT transfer leadership, let running calls finish and end the process with
exit code 0; a second signal ends it at once. If the log cannot be written, the process
ends at once with exit code 1, so that nothing is acknowledged that could be lost.

Every flag can also be given in the environment, as TXMGR_SERVER_DATA_DIR and so on, and
in the YAML file that --config names, as data_dir: and so on; relative paths there are
relative to the file.`,
		Example: `  txmgr server --data-dir /var/lib/txmgr
  txmgr server --config /etc/txmgr/server.yaml
  txmgr server --data-dir /var/lib/txmgr --listen 127.0.0.1:0 --address-file /run/txmgr.addr
  txmgr server --data-dir /var/lib/txmgr --raft-listen 127.0.0.1:7461 --bootstrap-expect 3 --join 127.0.0.1:7461,127.0.0.1:7471,127.0.0.1:7481`,
		Args:              cli.NoArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.flags(cmd.Flags())
	_ = cmd.RegisterFlagCompletionFunc("recovery-optimizer", cli.CompleteOptimizers) // the flag is there
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.resolve(cmd.Flags(), a.Env); err != nil {
			return err
		}
		if o.dataDir == "" {
			return output.Usage("--data-dir names the directory of the log; txmgr dev needs none", "no data directory given")
		}
		log, err := logger(a, o.logOptions)
		if err != nil {
			return err
		}
		log = asynclog.Wrap(log)
		defer handleHangups(log)()
		return serve(cmd.Context(), a, o, log, func(address string, _ *node.Node) error {
			return printReady(a, map[string]string{"address": address}, "listening on "+address)
		})
	}
	return cmd
}

func (o *serverOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.config, "config", "", "YAML file with any of these settings")
	f.StringVar(&o.dataDir, "data-dir", "", "directory of the log; it is created if it is missing")
	f.StringVar(&o.listen, "listen", "127.0.0.1:7460", "address to listen on; port 0 is any free port")
	f.BoolVar(&o.insecure, "insecure", false, "allow addresses that other machines reach, without TLS or authentication")
	f.StringVar(&o.addressFile, "address-file", "", "file that the address is written to when the server is ready")
	f.DurationVar(&o.interval, "interval", 0, "time between two invocations of the timeout thread, fixed when the data directory is created (default 100ms)")
	f.DurationVar(&o.retention, "retention", 0, "retention time of finished transactions, fixed when the data directory is created (default 1h)")
	f.DurationVar(&o.defaultTimeout, "default-timeout", 0, "timeout of transactions that request none (default 30s)")
	f.DurationVar(&o.maxTimeout, "max-timeout", 0, "longest timeout that a transaction may request (default 24h)")
	f.DurationVar(&o.sweepInterval, "sweep-interval", 0, "time between two sweeps, which scan participants for orphans; negative: never (default 5s)")
	f.StringVar(&o.optimizer, "recovery-optimizer", "knee", "optimizer of the number of concurrent calls to a participant: knee, throughput, mean or p99, or fixed:N")
	f.Uint64Var(&o.snapshotBytes, "snapshot-bytes", 0, "size of the log that a restart may have to replay before a snapshot is taken (default 64 MiB)")
	o.logOptions.flags(f)
	o.clusterOptions.flags(f)
	o.authOptions.flags(f)
}

// printReady prints on standard output that a server is ready.
func printReady(a *cli.App, value any, text string) error {
	if a.Print.Format.Structured() {
		return a.Print.Print(output.Document{Value: value})
	}
	_, err := fmt.Fprintln(a.Out, text)
	return err
}

// nodeConfig is the configuration that a server and a throw-away server share.
func (o *serverOptions) nodeConfig(log *slog.Logger) (node.Config, error) {
	c := node.Config{
		DataDir: o.dataDir, Interval: o.interval, Retention: o.retention,
		DefaultTimeout: o.defaultTimeout, MaxTimeout: o.maxTimeout,
		SnapshotBytes: o.snapshotBytes, Drivers: drivers.All(), Logger: log,
	}
	c.Recovery.SweepEvery = o.sweepInterval
	if o.optimizer == "" { // a throw-away server
		return c, nil
	}
	choice, err := node.ParseOptimizer(o.optimizer)
	if err != nil {
		return c, output.Usage("knee, throughput, mean, p99, or fixed:N with N calls at once, from 1 to 4096", "--recovery-optimizer is %q", o.optimizer)
	}
	c.Recovery.OptimizerSpec = choice
	return c, nil
}

func (o *serverOptions) serverConfig(log *slog.Logger) server.Config {
	c := server.Config{Listen: o.listen, Insecure: o.insecure, Log: log}
	o.authOptions.apply(&c)
	return c
}

// environmentName is the environment variable for a flag of the server.
func environmentName(flag string) string {
	return "TXMGR_SERVER_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Environment lists the environment variables of txmgr server: one for each flag.
func Environment() []cli.Variable {
	var o serverOptions
	f := pflag.NewFlagSet("server", pflag.ContinueOnError)
	o.flags(f)
	var out []cli.Variable
	f.VisitAll(func(f *pflag.Flag) { out = append(out, cli.Variable{Name: environmentName(f.Name), Flag: f.Name}) })
	return out
}
