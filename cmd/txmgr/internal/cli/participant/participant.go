package participant

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cell"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Command returns txmgr participant.
func Command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "participant",
		Short: "Manage participants (databases and services)",
		Long: `Register, test and unregister participants: the databases and services that take part in
transactions. A registration is replicated, and every client can read it: it names the
place of the secret, not the secret.`,
	}
	cli.GroupCommand(cmd)
	cmd.AddCommand(participantAddCommand(a), participantListCommand(a), participantTestCommand(a), participantRemoveCommand(a))
	return cmd
}

func participantListCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "list",
		Aliases:           []string{"ls"},
		Short:             "List the participants and their health",
		Long:              "List the participants, and their health as the server sees it: since when, and how long\nthe last probe took. A participant that no transaction needs is probed in every\nthird round of the sweep, every 15 seconds by default. LIMIT is the number of calls that\nrecovery makes to it at once: txmgr adaptive explain NAME shows the reasons. With -o wide\nalso its throughput and latencies, the last decision about its limit, and the settings.",
		Example:           "  txmgr participant list -o wide",
		Args:              cli.NoArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = a.ReadCmd(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		all, err := c.Admin().Participants(ctx)
		if err != nil {
			return err
		}
		return printParticipants(a, all)
	})
	return cmd
}

// Table lists participants as txmgr participant list does.
func Table(all []admin.ParticipantStatus) output.Table {
	t := output.Table{Columns: []output.Column{
		{Name: "PARTICIPANT"},
		{Name: "KIND"},
		{Name: "HEALTHY", State: true},
		{Name: "SINCE"},
		{Name: "PROBE TOOK"},
		{Name: "LIMIT"},
		{Name: "RUNNING"},
		{Name: "QUEUED"},
		{Name: "NEXT TRY"},
		{Name: "LAST ERROR"},
		{Name: "OPTIMIZER", Wide: true},
		{Name: "PER SECOND", Wide: true},
		{Name: "MEAN", Wide: true},
		{Name: "P99", Wide: true},
		{Name: "DECIDED", Wide: true},
		{Name: "SETTINGS", Wide: true},
	}}
	for _, p := range all {
		healthy := "no"
		if p.Healthy {
			healthy = "yes"
		}
		t.Add(p.Name, p.Kind, healthy, cell.Age(p.Since), cell.ShortDuration(p.ProbeTook), cell.Int(p.Limit), cell.Int(p.Running), cell.Int(p.Queued), cell.Duration(p.NextTry), p.LastError,
			p.Optimizer, formatRate(p.Throughput), cell.ShortDuration(p.Mean), cell.ShortDuration(p.P99), lastDecision(p.Decision), cell.Labels(p.Settings))
	}
	return t
}

func printParticipants(a *cli.App, all []admin.ParticipantStatus) error {
	names := make([]string, len(all))
	statuses := make([]admin.ParticipantStatus, len(all))
	for i, p := range all {
		if p.Settings == nil {
			p.Settings = map[string]string{}
		}
		names[i], statuses[i] = p.Name, p
	}
	if i := slices.IndexFunc(all, func(p admin.ParticipantStatus) bool { return !p.Healthy }); i >= 0 {
		a.Print.Note("for details: txmgr doctor %s", all[i].Name)
	}
	return a.Print.Print(output.Document{Value: statuses, IDs: names, Tables: []output.Table{Table(statuses)}})
}

func participantTestCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "test NAME...",
		Short: "Test whether a participant can take part",
		Long: `Test whether participants can take part: reachable from the server, configured for
prepared transactions, with sufficient privileges. A problem is exit code 10. This is a
quick test; txmgr doctor runs all health checks.`,
		Example:           "  txmgr participant test bank",
		Args:              cli.ArgCount(1, -1, "at least one NAME"),
		ValidArgsFunction: a.CompleteParticipants(),
		RunE: a.ShortCmd(func(ctx context.Context, c *client.Client, args []string) error {
			t := output.Table{Columns: []output.Column{{Name: "PARTICIPANT"}, {Name: "HEALTHY", State: true}, {Name: "PROBLEM"}}}
			type result struct {
				Name    string `json:"name"`
				Healthy bool   `json:"healthy"`
				Problem string `json:"problem"`
			}
			var results []result
			var bad []string
			for _, name := range args {
				err := c.Admin().TestParticipant(ctx, name)
				switch txn.CodeOf(err) {
				case txn.CodeOK:
					t.Add(name, "yes", "")
					results = append(results, result{Name: name, Healthy: true})
					continue
				case txn.CodeNotFound, txn.CodeUsage, txn.CodeDenied:
					return err
				}
				bad = append(bad, name)
				problem := output.Explain(err).Error()
				t.Add(name, "no", problem)
				results = append(results, result{Name: name, Problem: problem})
			}
			if err := a.Print.Print(output.Document{Value: results, IDs: args, Tables: []output.Table{t}}); err != nil || len(bad) == 0 {
				return err
			}
			return &output.Failure{
				Code: txn.CodeUnhealthy, What: strings.Join(bad, ", ") + " cannot take part",
				Cause: results[slices.IndexFunc(results, func(r result) bool { return !r.Healthy })].Problem,
				Hint:  "correct it and test again: txmgr participant test " + strings.Join(bad, " "),
			}
		}),
	}
}

func participantRemoveCommand(a *cli.App) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:     "remove NAME",
		Aliases: []string{"rm"},
		Short:   "Unregister a participant",
		Long: `Unregister a participant. This is refused while a branch at the participant is not
finished (exit code 6). Prepared transactions of other owners stay at the participant.`,
		Example:           "  txmgr participant remove bank --yes",
		Args:              cli.ArgCount(1, 1, "NAME"),
		ValidArgsFunction: a.CompleteParticipants(),
		RunE: a.ClientCmd(func(ctx context.Context, c *client.Client, args []string) error {
			if err := a.Confirm(fmt.Sprintf("Remove participant %s?", args[0])); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(ctx, a.RequestTimeout)
			defer cancel()
			if err := c.Admin().RemoveParticipant(ctx, args[0], a.OperatorName(), reason); err != nil {
				return err
			}
			t := output.Table{Columns: output.Columns("PARTICIPANT", "REMOVED")}
			t.Add(args[0], "yes")
			return a.Print.Print(output.Document{
				Value: map[string]any{"name": args[0], "removed": true}, IDs: args, Tables: []output.Table{t},
			})
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason; recorded in the audit")
	return cmd
}
