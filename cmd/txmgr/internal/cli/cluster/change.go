package cluster

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// joinTimeout is the minimum time that the coordinator has to reach a node that joins.
const joinTimeout = 15 * time.Second

func clusterJoinCommand(a *cli.App) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "join ADDRESS",
		Short: "Add a node to the cluster",
		Long: `Add the node that listens for other nodes at ADDRESS, its --advertise or --raft-listen.
It has to run, with a data directory that has never contained anything. The node is a
learner first, and becomes a voter when it has caught up.

A node that is started with --join asks to be added without this command.`,
		Example:           "  txmgr cluster join 10.0.0.4:7461\n  txmgr cluster join 10.0.0.4:7461 --reason \"replaces c, ticket 812\"",
		Args:              cli.ArgCount(1, 1, "ADDRESS"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.ClientCmd(func(ctx context.Context, c *client.Client, args []string) error {
			host, port, err := net.SplitHostPort(args[0])
			if n, numErr := strconv.ParseUint(port, 10, 16); err != nil || host == "" || numErr != nil || n == 0 {
				return output.Usage("write it like 10.0.0.4:7461", "address %q has no host, or no port", args[0])
			}
			ctx, cancel := context.WithTimeout(ctx, max(a.RequestTimeout, joinTimeout))
			defer cancel()
			m, err := c.Admin().Join(ctx, args[0], a.OperatorName(), reason)
			if txn.CodeOf(err) == txn.CodeUnavailable {
				f := *output.Explain(err)
				f.Hint = "is the node running, with --raft-listen and certificates of this cluster, and can the leader reach it at " + args[0] + "?"
				return &f
			}
			if err != nil {
				return err
			}
			if !m.Voter {
				a.Print.Note("the node is catching up; txmgr cluster status shows when it is a voter")
			}
			return a.Print.Print(output.Document{Value: m, IDs: []string{m.ID}, Tables: []output.Table{memberTable([]admin.Member{m})}})
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason; recorded in the audit")
	return cmd
}

func clusterRemoveCommand(a *cli.App) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "remove NODE --reason TEXT",
		Short: "Remove a node from the cluster permanently",
		Long: `Remove a node from the cluster permanently, by its name or id. A removed node cannot vote
or serve any more, even if its process still runs. Its data directory is of no use
afterwards: a machine that comes back gets an empty one, and joins as a new node.

The command is refused if the other nodes could not decide without the removed one.`,
		Example:           `  txmgr cluster remove c --reason "its disk is gone, ticket 812"`,
		Args:              cli.ArgCount(1, 1, "NODE"),
		ValidArgsFunction: completeNodes(a),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason; required, recorded in the audit")
	cmd.RunE = a.ClientCmd(func(ctx context.Context, c *client.Client, args []string) error {
		if err := cli.RequireReason(reason); err != nil {
			return err
		}
		if err := a.Confirm(fmt.Sprintf("Remove node %s from the cluster permanently?", args[0])); err != nil {
			return err
		}
		ctx, cancel := a.WithTimeout(ctx)
		defer cancel()
		if err := c.Admin().Remove(ctx, args[0], a.OperatorName(), reason); err != nil {
			return nodeFailure(err)
		}
		a.Print.Note("the data directory of the node is of no use any more")
		t := output.Table{Columns: output.Columns("NODE", "REMOVED")}
		t.Add(args[0], "yes")
		return a.Print.Print(output.Document{Value: map[string]any{"node": args[0], "removed": true}, IDs: args, Tables: []output.Table{t}})
	})
	return cmd
}

// nodeFailure adds to an error how to find the names of the nodes.
func nodeFailure(err error) error {
	if txn.CodeOf(err) != txn.CodeNotFound {
		return err
	}
	f := *output.Explain(err)
	f.Hint = "txmgr cluster status shows the nodes"
	return &f
}

func clusterTransferCommand(a *cli.App) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "transfer-leader [NODE]",
		Short: "Transfer leadership to another node",
		Long: `Transfer leadership to NODE, or to any node that is up to date. Calls continue after the
fraction of a second that the transfer takes.`,
		Example:           "  txmgr cluster transfer-leader\n  txmgr cluster transfer-leader b",
		Args:              cli.ArgCount(0, 1, "at most NODE"),
		ValidArgsFunction: completeNodes(a),
		RunE: a.FanoutCmd(func(ctx context.Context, c *client.Client, args []string) error {
			node := ""
			if len(args) == 1 {
				node = args[0]
			}
			if err := c.Admin().TransferLeader(ctx, node, a.OperatorName(), reason); err != nil {
				return nodeFailure(err)
			}
			s, err := statusAfterElection(ctx, c)
			if err != nil {
				return err
			}
			leader := leaderID(s)
			t := output.Table{Columns: output.Columns("LEADER", "NAME")}
			name := ""
			for _, m := range s.Members {
				if m.ID == leader {
					name = m.Name
				}
			}
			t.Add(output.OrDash(leader), name)
			return a.Print.Print(output.Document{
				Value: map[string]any{"leader": leader, "name": name, "transferred": true}, IDs: []string{leader}, Tables: []output.Table{t},
			})
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason; recorded in the audit")
	return cmd
}

// electionTimeout bounds the wait until a node knows the new leader.
const electionTimeout = 5 * time.Second

// statusAfterElection returns the status once a leader is known, or after electionTimeout the
// status without one.
func statusAfterElection(ctx context.Context, c *client.Client) (admin.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, electionTimeout)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		s, err := c.Admin().Status(ctx)
		if err != nil || leaderID(s) != "" {
			return s, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return s, nil
		}
	}
}

func clusterLeaveCommand(a *cli.App) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "leave",
		Short: "Remove the node at --address from the cluster permanently",
		Long: `Remove the node at --address, which must be a single one, from the cluster permanently,
before its machine is taken away. If the node leads it transfers leadership; it can be
stopped afterwards. To stop a node does not remove it: a stopped node is still counted.`,
		Example:           "  txmgr cluster leave --address http://10.0.0.3:7460",
		Args:              cli.NoArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.ClientCmd(func(ctx context.Context, c *client.Client, _ []string) error {
			if strings.Contains(a.Address, ",") {
				return output.Usage("give the address of the node to remove in --address, and no other", "several addresses are given; the command removes the node that it calls")
			}
			ctx, cancel := a.WithTimeout(ctx)
			defer cancel()
			s, err := c.Admin().Status(ctx)
			if err != nil {
				return err
			}
			name := s.Node
			for _, m := range s.Members {
				if m.Self && m.Name != "" {
					name = m.Name + " (" + m.ID + ")"
				}
			}
			if err := a.Confirm(fmt.Sprintf("Remove node %s from the cluster permanently?", name)); err != nil {
				return err
			}
			if err := c.Admin().Leave(ctx, a.OperatorName(), reason); err != nil {
				return err
			}
			a.Print.Note("the node can be stopped now; its data directory is of no use any more")
			t := output.Table{Columns: output.Columns("NODE", "LEFT")}
			t.Add(s.Node, "yes")
			return a.Print.Print(output.Document{Value: map[string]any{"node": s.Node, "left": true}, IDs: []string{s.Node}, Tables: []output.Table{t}})
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason; recorded in the audit")
	return cmd
}
