package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"strings"
	"syscall"
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
	logLevel       string
	logFormat      string
	snapshotBytes  uint64
	optimizer      string
	clusterOptions
	authOptions
}

func serverCommand(a *cli.App) *cobra.Command {
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
		log, err := logger(a, &o)
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
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.Uint64Var(&o.snapshotBytes, "snapshot-bytes", 0, "size of the log that a restart may have to replay before a snapshot is taken (default 64 MiB)")
	f.StringVar(&o.logFormat, "log-format", "", "log format: text or json (default text, or json with --output json)")
	o.clusterOptions.flags(f)
	o.authOptions.flags(f)
}

// logger is the log of a server, on standard error, in the format of the errors there.
func logger(a *cli.App, o *serverOptions) (*slog.Logger, error) {
	chosen := *o
	if chosen.logFormat == "" && a.Print.Format.Structured() {
		chosen.logFormat = "json"
	}
	return chosen.logger(a.Err)
}

// logger returns the log of a server.
func (o *serverOptions) logger(w io.Writer) (*slog.Logger, error) {
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

// openTimeout bounds the start of a coordinator: reading the log.
const openTimeout = 10 * time.Minute

// serve runs a coordinator until ctx ends. It listens on its port before it reads its log, so that
// a port in use is reported at once.
func serve(ctx context.Context, a *cli.App, o serverOptions, log *slog.Logger, ready func(address string, n *node.Node) error) (err error) {
	signal.Ignore(syscall.SIGPIPE) // a closed pipe must not stop the coordinator
	closing := new(closers)
	defer func() { err = closing.close(err) }()

	// The server needs its coordinator when it is created, and the port has to be opened before.
	listener, err := o.openListener()
	if err != nil {
		return err
	}
	closing.add("the port", listener.Close)
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	address := o.scheme() + listener.Addr().String()
	conf, err := o.nodeConfig(log)
	if err != nil {
		return err
	}
	if conf.Cluster, err = o.cluster(listener.Addr(), o.scheme(), o.insecure); err != nil {
		return err
	}
	n, err := node.Open(opening, conf)
	if err != nil {
		return dataDirFailure(o.dataDir, err)
	}
	closing.add("the coordinator", n.Close)
	s, err := server.New(o.serverConfig(log), n)
	if err != nil {
		return err
	}
	if err := ready(address, n); err != nil {
		return err
	}
	if o.addressFile != "" {
		if err := writeAddress(o.addressFile, address); err != nil {
			return err
		}
		closing.add("the address file", removeFunc(o.addressFile))
	}
	return serveUntil(ctx, s, n, listener, log)
}

// environmentName is the environment variable for a flag of the server.
func environmentName(flag string) string {
	return "TXMGR_SERVER_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func serverEnvironment() []cli.Variable {
	var o serverOptions
	f := pflag.NewFlagSet("server", pflag.ContinueOnError)
	o.flags(f)
	var out []cli.Variable
	f.VisitAll(func(f *pflag.Flag) { out = append(out, cli.Variable{Name: environmentName(f.Name), Flag: f.Name}) })
	return out
}
