package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// filterOptions are the flags by which list and watch select transactions.
type filterOptions struct {
	states      []string
	participant string
	labels      []string
}

func (o *filterOptions) flags(a *app, cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&o.states, "state", nil, "only transactions in these states, separated by commas; see: txmgr help states")
	f.StringVar(&o.participant, "participant", "", "only transactions with a branch at this participant")
	f.StringArrayVar(&o.labels, "label", nil, "only transactions with this label, as key=value; may be repeated")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(stateNames(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	_ = cmd.RegisterFlagCompletionFunc("participant", a.completeParticipants())
}

func (o *filterOptions) filter() (admin.Filter, error) {
	f := admin.Filter{Participant: o.participant}
	for _, s := range o.states {
		state, err := txn.ParseState(s)
		if err != nil || state == 0 {
			next := output.DidYouMean(s, stateNames(), "--state ")
			if next == "" {
				next = "txmgr help states"
			}
			return f, output.Usage(next, "unknown state %q", s)
		}
		f.States = append(f.States, state)
	}
	if len(o.labels) > 0 {
		labels, err := parseLabels(o.labels)
		if err != nil {
			return f, err
		}
		f.Labels = labels
	}
	return f, nil
}

func stateNames() []string {
	var out []string
	for s := txn.Active; s <= txn.RolledBack; s++ {
		out = append(out, s.String())
	}
	return out
}

func listCommand(a *app) *cobra.Command {
	var o filterOptions
	var olderThan, expiresWithin time.Duration
	var limit int
	var before string
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List transactions",
		Long: `List transactions, oldest first: those that are not finished, and those that finished
within the retention time. An empty list is not an error.`,
		Example: `  txmgr list
  txmgr list --state active,preparing --expires-within 10s
  txmgr list --state committing --older-than 1m -o wide
  for id in $(txmgr list --participant bank -o id); do txmgr inspect $id; done`,
		Args:              noArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.flags(a, cmd)
	f := cmd.Flags()
	f.DurationVar(&olderThan, "older-than", 0, "only transactions that began at least this long ago")
	f.DurationVar(&expiresWithin, "expires-within", 0, "only undecided transactions that expire within this time from now")
	f.IntVar(&limit, "limit", 1000, "maximum number of transactions, the newest ones")
	f.StringVar(&before, "before", "", "only transactions older than the one with this id")
	cmd.RunE = a.readCmd(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		filter, err := o.filter()
		if err != nil {
			return err
		}
		if olderThan < 0 || expiresWithin < 0 || limit < 1 {
			return output.Usage("", "--older-than and --expires-within must not be negative, --limit must be positive")
		}
		filter.OlderThan, filter.ExpiresWithin, filter.Limit = olderThan, expiresWithin, limit
		if before != "" {
			if filter.Before, err = txn.ParseID(before); err != nil {
				return err
			}
		}
		found, err := c.List(ctx, filter)
		if err != nil {
			return err
		}
		if len(found) == limit {
			a.print.Note("only the newest %d are shown; for older ones: --before %v", limit, found[0].ID)
		}
		return a.printList(found)
	})
	return cmd
}

func (a *app) printList(found []txn.Info) error {
	t := output.Table{Columns: []output.Column{
		{Name: "TX"},
		{Name: "NAME"},
		{Name: "STATE", State: true},
		{Name: "CAUSE", Wide: true},
		{Name: "AGE"},
		{Name: "EXPIRES IN"},
		{Name: "REMAINING", Wide: true},
		{Name: "LABELS", Wide: true},
		{Name: "BRANCHES"},
		{Name: "WAITING FOR"},
	}}
	ids := make([]string, len(found))
	for i, x := range found {
		ids[i] = x.ID.String()
		cause, remaining := "", ""
		if x.Cause != 0 {
			cause = x.Cause.String()
		}
		if !x.State.Decided() {
			remaining = formatInt(x.RemainingInvocations)
		}
		t.Add(ids[i], x.Name, strings.TrimSpace(stateWithHeuristic(x.State, x.Heuristic)), cause, output.Since(time.Since(x.Began)), formatDuration(x.ExpiresIn),
			remaining, labelText(x.Labels), branchSummary(x), waitReason(x))
	}
	return a.print.Print(output.Document{Value: normalizeAll(found), IDs: ids, Tables: []output.Table{t}})
}
