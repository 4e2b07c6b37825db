package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/internal/asynclog"
	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/txn/admin"
)

// DevCommand returns txmgr dev.
func DevCommand(a *cli.App) *cobra.Command {
	o := serverOptions{logOptions: logOptions{logFormat: "text"}}
	nodes := 1
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a temporary coordinator to try the commands on",
		Long: `Run a coordinator with all functions enabled and two embedded databases, bank and stock,
to try the commands on. Its data is deleted when it ends, unless --data-dir names a
directory for it.

With --nodes 3 it is three coordinators in one process, which form a cluster: each has
its own port, 10 higher than the one before, and any of them accepts any call.`,
		Example:           "  txmgr dev\n  txmgr dev --nodes 3\n  txmgr dev --data-dir ./txmgr-data",
		Args:              cli.NoArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.IntVar(&nodes, "nodes", 1, "number of coordinators, 1 to 7")
	f.StringVar(&o.dataDir, "data-dir", "", "directory for the data (default: a temporary one, which is deleted at the end)")
	f.StringVar(&o.listen, "listen", "127.0.0.1:7460", "address to listen on; port 0 is any free port")
	f.StringVar(&o.addressFile, "address-file", "", "file that the address is written to when the coordinator is ready")
	f.StringVar(&o.logLevel, "log-level", "warn", "debug, info, warn or error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if nodes < 1 || nodes > maxDevNodes {
			return output.Usage("give 1 to 7; 3 tolerate the loss of one", "--nodes is %d", nodes)
		}
		log, err := logger(a, o.logOptions)
		if err != nil {
			return err
		}
		ctx, stop := cli.WithHangup(cmd.Context())
		defer stop()
		keep := o.dataDir != ""
		if !keep {
			if o.dataDir, err = os.MkdirTemp("", "txmgr-dev-"); err != nil {
				return fmt.Errorf("make a directory for the data: %w", err)
			}
			defer func(dir string) { err = errors.Join(err, os.RemoveAll(dir)) }(o.dataDir)
		}
		data, err := filepath.Abs(o.dataDir)
		if err != nil {
			return err
		}
		if nodes > 1 {
			return devCluster(ctx, a, o, log, nodes, data, keep)
		}
		o.dataDir = filepath.Join(data, "coordinator")
		return serve(ctx, a, o, asynclog.Wrap(log), func(address string, n *node.Node) error {
			if err := seedDemoData(ctx, n, data); err != nil {
				return err
			}
			return printBanner(a, address, data, keep)
		})
	}
	return cmd
}

// devLedgers are the databases of a throw-away server, with their first contents.
func devLedgers() map[string]string {
	return map[string]string{"bank": "set alice 100; set bob 100", "stock": "set apples 20"}
}

func ledgerNames() []string { return slices.Sorted(maps.Keys(devLedgers())) }

// seedDemoData registers the databases and puts accounts into new ones.
func seedDemoData(ctx context.Context, n *node.Node, data string) error {
	for _, name := range ledgerNames() {
		path := filepath.Join(data, name+".db")
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			if _, err := ledger.New(name, path).Local(ctx, devLedgers()[name]); err != nil {
				return fmt.Errorf("make the database %s: %w", name, err)
			}
		}
		p := admin.Participant{Name: name, Kind: ledger.Kind, Settings: map[string]string{"path": path}}
		if err := n.Admin().AddParticipant(ctx, p, "txmgr dev", ""); err != nil {
			return err
		}
	}
	return nil
}

// printBanner prints what runs and the next commands.
func printBanner(a *cli.App, address, data string, keep bool) error {
	fate := "deleted when this ends; --data-dir keeps it"
	if keep {
		fate = "kept"
	}
	elsewhere := ""
	if address != client.DefaultAddress {
		elsewhere = "  export TXMGR_ADDR=" + address + "\n"
	}
	return printReady(a, map[string]any{"address": address, "data_dir": data, "kept": keep, "participants": ledgerNames()},
		fmt.Sprintf(DevBanner, address, data, fate, elsewhere))
}

// printClusterBanner is printBanner for several coordinators.
func printClusterBanner(a *cli.App, addresses []string, data string, keep bool) error {
	fate := "deleted when this ends; --data-dir keeps it"
	if keep {
		fate = "kept"
	}
	list := strings.Join(addresses, ",")
	banner := strings.Replace(DevBanner, "a temporary coordinator", fmt.Sprintf("a temporary cluster of %d coordinators", len(addresses)), 1)
	return printReady(a, map[string]any{"address": list, "addresses": addresses, "data_dir": data, "kept": keep, "participants": ledgerNames()},
		fmt.Sprintf(banner, strings.Join(addresses, "\n                 "), data, fate, "  export TXMGR_ADDR="+list+"\n  txmgr cluster status\n"))
}

// DevBanner is what txmgr dev prints when it is ready: the format of an address, a directory, what
// becomes of the directory, and commands that are needed before the others.
const DevBanner = `txmgr dev: a temporary coordinator

  address        %s
  data           %s (%s)
  participants   bank (alice 100, bob 100), stock (apples 20): embedded ledgers
  health         /readyz /metrics

In another terminal:

%s  txmgr exec --on bank 'add alice -10' --on stock 'add apples -1'
  txmgr exec --on bank 'get alice' --on stock 'get apples'
  id=$(txmgr begin -q bank stock --timeout 20s); txmgr timeouts; txmgr wait $id

With databases and services of your own, whose addresses are in files:

  txmgr participant add shop --kind postgres --dsn-file shop.dsn
  txmgr participant add orders --kind mariadb --dsn-file orders.dsn
  txmgr participant add mail --kind web --url http://127.0.0.1:8025/txmgr --set list=/prepared
  txmgr doctor

Ctrl-C ends it.`
