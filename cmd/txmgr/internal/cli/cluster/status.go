package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli/participant"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// StatusCommand returns txmgr status.
func StatusCommand(a *cli.App) *cobra.Command {
	var ready bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the coordinator at a glance",
		Long: `Show the coordinator at a glance. The exit code is 0 whenever the coordinator answers.

With --ready it is 10 unless there is a leader, every participant is healthy, and
recovery is not paused since a restore.`,
		Example:           "  txmgr status\n  txmgr status --ready -q",
		Args:              cli.NoArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&ready, "ready", false, "exit with 10 unless there is a leader, all participants are healthy, and recovery is not paused")
	cmd.RunE = a.ShortCmd(func(ctx context.Context, c *client.Client, _ []string) error {
		s, err := c.Admin().Status(ctx)
		if err != nil {
			return err
		}
		if len(s.Members) > 1 {
			s.Members = sortedByName(leaderStatus(ctx, a, s).Members)
		}
		if err := printStatus(a, s); err != nil || !ready {
			return err
		}
		return notReadyFailure(s)
	})
	return cmd
}

func notReadyFailure(s admin.Status) error {
	if !s.Leader && s.LeaderID == "" {
		return &output.Failure{Code: txn.CodeUnhealthy, What: "no leader", Cause: s.WaitingFor, Hint: "check the log of the server"}
	}
	if s.RecoveryPaused {
		return &output.Failure{Code: txn.CodeUnhealthy, What: "recovery is paused since the restore", Hint: "txmgr recover resume --reason TEXT"}
	}
	var sick []string
	for _, p := range s.Participants {
		if !p.Healthy {
			sick = append(sick, strings.TrimSuffix(p.Name+": "+p.LastError, ": "))
		}
	}
	if len(sick) == 0 {
		return nil
	}
	return &output.Failure{
		Code: txn.CodeUnhealthy, What: output.Plural(len(sick), "participant is", "participants are") + " not healthy",
		Cause: strings.Join(sick, "; "), Hint: "txmgr doctor NAME",
	}
}

// delegated names the open transactions to which no deadline applies.
func delegated(s admin.Status) string {
	if s.Delegated == 0 {
		return ""
	}
	return fmt.Sprintf(", of them %d delegated", s.Delegated)
}

// causes lists the causes of rollbacks.
func causes(s admin.Status) string {
	var of []string
	for _, c := range txn.Causes() {
		if n := s.RolledBackBy[c]; n > 0 {
			of = append(of, fmt.Sprintf("%d %v", n, c))
		}
	}
	if len(of) == 0 {
		return ""
	}
	return " (" + strings.Join(of, ", ") + ")"
}

func printStatus(a *cli.App, s admin.Status) error {
	leader := s.LeaderID
	if s.Leader {
		leader = "this node"
	}
	if s.Participants == nil {
		s.Participants = []admin.ParticipantStatus{}
	}
	if s.Members == nil {
		s.Members = []admin.Member{}
	}
	t := output.Table{Columns: []output.Column{{Name: "FIELD"}, {Name: "VALUE"}}}
	add := func(name, format string, args ...any) { t.Add(name, fmt.Sprintf(format, args...)) }
	add("node", "%s", s.Node)
	add("cluster", "%s", s.Cluster)
	add("leader", "%s", output.OrDash(leader))
	if s.WaitingFor != "" {
		add("waiting for", "%s", s.WaitingFor)
	}
	if s.Incarnation > 0 || s.RecoveryPaused {
		held := ""
		if s.RecoveryPaused {
			held = ", recovery paused"
		}
		add("incarnation", "%d%s", s.Incarnation, held)
	}
	add("version", "%s", s.Version)
	add("uptime", "%s", output.Since(time.Duration(s.Uptime)))
	add("term, log index", "%d, %d (%d bytes)", s.Term, s.LogIndex, s.LogBytes)
	add("tick", "%d, one every %v", s.Tick, time.Duration(s.Interval))
	add("undecided", "%d%s", s.Undecided, delegated(s))
	add("completing", "%d", s.Completing)
	add("finished", "%d", s.Finished)
	add("heuristic outcomes", "%d", s.Heuristics)
	add("decided", "%d committed, %d rolled back%s", s.Committed, s.RolledBack, causes(s))
	if s.Sessions > 0 || s.SessionsExpired > 0 {
		add("sessions", "%d open, %d expired", s.Sessions, s.SessionsExpired)
	}
	add("since start", "%d commands in %d entries, %d of them only ticks, %d syncs", s.Commands, s.Entries, s.TickEntries, s.Syncs)
	if s.Heuristics > 0 {
		a.Print.Note("heuristic outcomes need an operator: txmgr indoubt list")
	}
	if s.RecoveryPaused {
		a.Print.Note("%s", recoveryPausedNote)
	}
	tables := []output.Table{t}
	if len(s.Members) > 1 {
		tables = append(tables, memberTable(s.Members))
	}
	if len(s.Participants) > 0 {
		tables = append(tables, participant.Table(s.Participants))
	}
	return a.Print.Print(output.Document{Value: s, IDs: []string{s.Node}, Tables: tables})
}
