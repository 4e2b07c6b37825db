package serve

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/provision"
)

func configInitCommand(a *cli.App) *cobra.Command {
	var p provision.Spec
	var nodes []string
	cmd := &cobra.Command{
		Use:   "init --dir DIR --node NAME=HOST...",
		Short: "Create certificates, tokens and settings for the nodes of a cluster",
		Long: `Create what the nodes of a cluster need: a private certificate authority, a certificate for
each node and for a client, a root token, and a file of settings for each node. The
directory of a node is all that its machine needs: copy it there, and nothing else.

No existing file is replaced: run the command again to continue, or, later, with another
--node to add one; the new node joins the others, and is added to the addresses in the
environments of clients. Keep ca.key on a machine that is not a node.

A node is NAME=HOST, or NAME=HOST:PORT with the port of its API, where the next port is
the one for other nodes, or NAME=HOST:PORT:PORT.`,
		Example: `  txmgr config init --dir shop --cluster shop --node a=10.0.0.1 --node b=10.0.0.2 --node c=10.0.0.3
  txmgr config init --dir try --node a=127.0.0.1:7460 --node b=127.0.0.1:7470 --node c=127.0.0.1:7480
  txmgr config init --dir shop --node d=10.0.0.4 --client app`,
		Args:              cli.NoArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&p.Dir, "dir", "", "directory; it is created if it is missing")
	f.StringVar(&p.Cluster, "cluster", "", "name of the cluster in certificates (default txmgr)")
	f.StringArrayVar(&nodes, "node", nil, "node, as NAME=HOST; may be repeated")
	f.StringArrayVar(&p.Clients, "client", []string{"client"}, "name in a client's certificate; may be repeated")
	cmd.RunE = func(*cobra.Command, []string) error {
		if p.Dir == "" || len(nodes) == 0 {
			return output.Usage("txmgr config init --dir DIR --node a=10.0.0.1 --node b=10.0.0.2 --node c=10.0.0.3", "want --dir and at least one --node")
		}
		for _, s := range nodes {
			n, err := provision.ParseNode(s)
			if err != nil {
				return err
			}
			p.Nodes = append(p.Nodes, n)
		}
		files, err := provision.Make(p)
		if err != nil {
			return err
		}
		return printProvisioned(a, p, files)
	}
	return cmd
}

func printProvisioned(a *cli.App, p provision.Spec, files []provision.File) error {
	t := output.Table{Columns: output.Columns("FILE", "CREATED", "WHAT")}
	var ids []string
	for _, f := range files {
		made := "existed"
		switch {
		case f.Made:
			made = "yes"
		case f.Changed:
			made = "nodes added"
			a.Print.Note("the addresses in %s were extended: read the file again in shells that use it", f.Path)
		}
		t.Add(f.Path, made, f.What)
		ids = append(ids, f.Path)
	}
	if len(p.Nodes)%2 == 0 {
		a.Print.Note("%d nodes tolerate the loss of %d, as %d nodes do: an odd number of nodes is better", len(p.Nodes), (len(p.Nodes)-1)/2, len(p.Nodes)-1)
	}
	for _, n := range p.Nodes {
		a.Print.Note("start node %s: txmgr server --config %s", n.Name, filepath.Join(p.Dir, n.Name, "server.yaml"))
	}
	for _, c := range p.Clients {
		a.Print.Note("then: . %s; export TXMGR_TOKEN_FILE=%s; txmgr cluster status", filepath.Join(p.Dir, c, "env"), filepath.Join(p.Dir, "root.token"))
	}
	return a.Print.Print(output.Document{Value: files, IDs: ids, Tables: []output.Table{t}})
}
