package cluster

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cell"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Command returns txmgr cluster.
func Command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show and change the nodes of a cluster",
		Long: `Show and change the nodes of a cluster. A cluster of three nodes continues when one of
them is lost, a cluster of five when two are lost; txmgr server describes how nodes find
each other.`,
	}
	cli.GroupCommand(cmd)
	cmd.AddCommand(clusterStatusCommand(a), clusterJoinCommand(a), clusterRemoveCommand(a), clusterTransferCommand(a), clusterLeaveCommand(a))
	return cmd
}

func clusterStatusCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the nodes, with roles and replication lag",
		Long: `Show the nodes of the cluster as the leader sees them. If the leader cannot be asked, the
node that answers reports what it knows; the contact of the others is unknown then.

  leader    decides
  voter     takes part in decisions
  learner   is catching up, and will be a voter

Without a leader the exit code is 10.`,
		Example:           "  txmgr cluster status\n  txmgr cluster status --address http://10.0.0.2:7460 -o json",
		Args:              cli.NoArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.ShortCmd(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := c.Admin().Status(ctx)
			if err != nil {
				return err
			}
			s = leaderStatus(ctx, a, s)
			if err := printCluster(a, s); err != nil {
				return err
			}
			// A node that has only just learned who leads may not have the list of members yet.
			if !slices.ContainsFunc(s.Members, func(m admin.Member) bool { return m.Leader }) {
				return &output.Failure{Code: txn.CodeUnhealthy, What: "no leader", Cause: s.WaitingFor, Hint: "check the logs of the nodes; more than half of the voters have to reach each other"}
			}
			return nil
		}),
	}
}

// leaderTimeout bounds the wait for the status from the leader.
const leaderTimeout = 2 * time.Second

// leaderStatus returns the status from the leader, the only node that knows the state of the
// others, or s if the leader cannot be reached.
func leaderStatus(ctx context.Context, a *cli.App, s admin.Status) admin.Status {
	i := slices.IndexFunc(s.Members, func(m admin.Member) bool { return m.Leader })
	if s.Leader || i < 0 || s.Members[i].API == "" {
		return s
	}
	c, err := a.DialAt(s.Members[i].API)
	if err != nil {
		return s
	}
	defer func() { _ = c.Close() }() // the status was received, or the call failed
	ctx, cancel := context.WithTimeout(ctx, leaderTimeout)
	defer cancel()
	if better, err := c.Admin().Status(ctx); err == nil && better.Cluster == s.Cluster && better.Leader {
		for i := range better.Members {
			better.Members[i].Self = better.Members[i].ID == s.Node
		}
		return better
	}
	return s
}

// leaderID is the id of the leader; empty if there is none.
func leaderID(s admin.Status) string {
	if s.Leader {
		return s.Node
	}
	return s.LeaderID
}

// clusterView is the part of the status that describes the nodes.
type clusterView struct {
	Cluster        string         `json:"cluster"`
	Incarnation    uint64         `json:"incarnation"`
	RecoveryPaused bool           `json:"recovery_paused"`
	Leader         string         `json:"leader"`
	Waiting        string         `json:"waiting_for"`
	Members        []admin.Member `json:"members"`
}

// sortedByName sorts nodes, so that their order does not depend on the node that answered.
func sortedByName(members []admin.Member) []admin.Member {
	return slices.SortedFunc(slices.Values(members), func(a, b admin.Member) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
}

func printCluster(a *cli.App, s admin.Status) error {
	v := clusterView{s.Cluster, s.Incarnation, s.RecoveryPaused, leaderID(s), s.WaitingFor, sortedByName(s.Members)}
	if v.Members == nil {
		v.Members = []admin.Member{}
	}
	ids := make([]string, len(v.Members))
	for i, m := range v.Members {
		ids[i] = m.ID
	}
	if s.RecoveryPaused {
		a.Print.Note("%s", recoveryPausedNote)
	}
	return a.Print.Print(output.Document{Value: v, IDs: ids, Tables: []output.Table{memberTable(v.Members)}})
}

const recoveryPausedNote = "recovery is paused since the restore: no branch is completed, and no transaction begins, until: txmgr recover resume --reason TEXT"

func memberTable(members []admin.Member) output.Table {
	t := output.Table{Columns: []output.Column{
		{Name: "NAME"}, {Name: "ID"}, {Name: "ROLE", State: true}, {Name: "API"}, {Name: "RAFT"}, {Name: "CONTACT"}, {Name: "LAG"}, {Name: "VERSION"},
	}}
	for _, m := range members {
		heard, behind := "", ""
		if m.LastContact >= 0 && !m.Leader {
			heard = output.Since(time.Duration(m.LastContact)) + " ago"
		}
		if m.LogLag >= 0 && !m.Leader {
			behind = cell.Int(m.LogLag)
		}
		t.Add(m.Name, m.ID, roleOf(m), m.API, m.RaftAddr, heard, behind, m.Version)
	}
	return t
}

func roleOf(m admin.Member) string {
	switch {
	case m.Leader:
		return "leader"
	case m.Voter:
		return "voter"
	}
	return "learner"
}

// completeNodes completes the first argument with the nodes of the cluster.
func completeNodes(a *cli.App) cobra.CompletionFunc {
	return a.Complete(func(ctx context.Context, c *client.Client, args []string, _ string) (out []string) {
		if len(args) > 0 {
			return nil
		}
		s, err := c.Admin().Status(ctx)
		if err != nil {
			return nil
		}
		for _, m := range s.Members {
			name := m.Name
			if name == "" {
				name = m.ID
			}
			out = append(out, cobra.CompletionWithDesc(name, strings.TrimSpace(roleOf(m)+" "+output.Sanitize(m.API))))
		}
		return out
	})
}
