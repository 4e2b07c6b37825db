package participant

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// The levels of a check in the API.
const (
	levelOK      = "ok"
	levelFailure = "failure"
)

// DoctorCommand returns txmgr doctor.
func DoctorCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor [PARTICIPANT]",
		Short: "Run health checks",
		Long: `Run health checks of the coordinator and of all participants, or of one participant:
settings, privileges, versions, poolers that break sessions, orphans. Each problem is
printed with its remedy. The command changes nothing.

  ok       no problem
  warning  it works, but not permanently, or not in all cases
  FAIL     transactions fail, or cannot be recovered

With a failure the exit code is 10. -o id prints where the failures are.`,
		Example:           "  txmgr doctor\n  txmgr doctor bank\n  txmgr doctor -o json",
		Args:              cli.ArgCount(0, 1, "at most PARTICIPANT"),
		ValidArgsFunction: a.CompleteParticipants(),
		RunE: a.FanoutCmd(func(ctx context.Context, c *client.Client, args []string) error {
			found, err := c.Admin().Doctor(ctx, strings.Join(args, ""))
			if err != nil {
				return err
			}
			if found = withCommands(found); found == nil {
				found = []admin.Check{}
			}
			var p output.Page
			writeChecks(&p, found)
			if err := a.Print.Print(output.Document{Value: found, IDs: failingScopes(found), Page: p}); err != nil {
				return err
			}
			return checkFailure(found, "correct the failures and check again: "+strings.Join(append([]string{"txmgr doctor"}, args...), " "))
		}),
	}
}

// writeChecks lists the results of checks, each with its remedy.
func writeChecks(p *output.Page, found []admin.Check) {
	for _, d := range found {
		level := d.Level
		if level == levelFailure {
			level = "FAIL"
		}
		p.Row(d.Subject+": "+d.Message, level, checkScope(d))
		if d.Remedy != "" {
			p.Paste("fix: " + d.Remedy)
		}
	}
}

func checkScope(d admin.Check) string {
	if d.Participant == "" {
		return "coordinator"
	}
	return d.Participant
}

// failingScopes returns the scopes with a failed check, each once.
func failingScopes(found []admin.Check) []string {
	places := []string{}
	for _, d := range found {
		if d.Level == levelFailure && !slices.Contains(places, checkScope(d)) {
			places = append(places, checkScope(d))
		}
	}
	return places
}

// checkFailure is the failure of a health check in which a check failed; nil if none did.
func checkFailure(found []admin.Check, next string) error {
	var causes []string
	for _, d := range found {
		if d.Level == levelFailure {
			causes = append(causes, checkScope(d)+": "+d.Subject+": "+d.Message)
		}
	}
	if len(causes) == 0 {
		return nil
	}
	return &output.Failure{
		Code: txn.CodeUnhealthy, What: strings.Join(failingScopes(found), ", ") + ": " + output.Plural(len(causes), "failure", "failures"),
		Cause: strings.Join(causes, "\n"), Hint: next,
	}
}
