package cli

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

// completionTimeout bounds the wait of a shell for a completion.
const completionTimeout = 2 * time.Second

// Complete returns a completion that calls the coordinator. If the coordinator cannot be reached,
// the completion is empty.
func (a *App) Complete(candidates func(ctx context.Context, c *client.Client, args []string, word string) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if a.Prepare(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := a.dial()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer func() { _ = c.Close() }() // the candidates were received
		ctx, cancel := context.WithTimeout(cmd.Context(), min(completionTimeout, a.RequestTimeout))
		defer cancel()
		return candidates(ctx, c, args, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteTX completes the first argument with transactions, and the second one with participants
// if the command takes one.
func (a *App) CompleteTX(thenParticipant bool) cobra.CompletionFunc {
	return a.Complete(func(ctx context.Context, c *client.Client, args []string, word string) []string {
		switch {
		case len(args) == 0:
			return TransactionIDs(ctx, c, word)
		case len(args) == 1 && thenParticipant:
			return participantNames(ctx, c)
		}
		return nil
	})
}

// TransactionIDs returns the transactions that complete a word; none if they cannot be listed.
func TransactionIDs(ctx context.Context, c *client.Client, word string) []string {
	prefix := txn.IDPrefix
	if word != "" && !strings.HasPrefix(txn.IDPrefix, word) {
		p, err := idPrefix(word)
		if err != nil {
			return nil
		}
		prefix = p
	}
	found, err := c.List(ctx, admin.Filter{Prefix: prefix, Limit: 100})
	if err != nil {
		return nil
	}
	var out []string
	for _, t := range found {
		out = append(out, cobra.CompletionWithDesc(t.ID.String(), strings.TrimSpace(t.State.String()+" "+output.Sanitize(t.Name))))
	}
	return out
}

// CompleteParticipants completes every argument with the participants.
func (a *App) CompleteParticipants() cobra.CompletionFunc {
	return a.Complete(func(ctx context.Context, c *client.Client, _ []string, _ string) []string {
		return participantNames(ctx, c)
	})
}

func participantNames(ctx context.Context, c *client.Client) []string {
	all, err := c.Admin().Participants(ctx)
	if err != nil {
		return nil
	}
	var out []string
	for _, p := range all {
		out = append(out, cobra.CompletionWithDesc(p.Name, p.Kind))
	}
	return out
}

// CompleteSessions completes the first argument, or a flag, with the open sessions.
func (a *App) CompleteSessions(flag bool) cobra.CompletionFunc {
	return a.Complete(func(ctx context.Context, c *client.Client, args []string, _ string) (out []string) {
		if len(args) > 0 && !flag {
			return nil
		}
		all, err := c.Admin().Sessions(ctx, admin.SessionFilter{})
		if err != nil {
			return nil
		}
		for _, s := range all {
			out = append(out, cobra.CompletionWithDesc(s.ID.String(), strings.TrimSpace(s.State.String()+" "+output.Sanitize(s.Name))))
		}
		return out
	})
}

// CompleteFiles leaves the first argument to the shell.
func CompleteFiles(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// CompleteOptimizers completes the names of the optimizers, which choose the concurrency limit of a
// participant.
func CompleteOptimizers(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return []cobra.Completion{"knee", "throughput", "mean", "p99", "fixed:16"}, cobra.ShellCompDirectiveNoFileComp
}
