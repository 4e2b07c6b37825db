package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// maxShownIDs is how many transactions an ambiguous prefix lists.
const maxShownIDs = 5

// resolveID finds the transaction that an argument names: a complete id, or a prefix of exactly one
// id; "tx_" may be left out.
func resolveID(ctx context.Context, c *client.Client, arg string) (txn.ID, error) {
	prefix, err := idPrefix(arg)
	if err != nil {
		return txn.ID{}, err
	}
	if len(prefix) == txn.IDTextLen {
		return txn.ParseID(prefix)
	}
	found, err := c.List(ctx, admin.Filter{Prefix: prefix, Limit: maxShownIDs + 1})
	if err != nil {
		return txn.ID{}, err
	}
	switch len(found) {
	case 0:
		return txn.ID{}, &output.Failure{
			Code: txn.CodeNotFound, What: fmt.Sprintf("no transaction begins with %s", prefix),
			Cause: "it never existed, or it finished longer ago than the retention time", Hint: "txmgr list",
		}
	case 1:
		return found[0].ID, nil
	}
	var ids []string
	for _, t := range found[:min(len(found), maxShownIDs)] {
		ids = append(ids, t.ID.String())
	}
	if len(found) > maxShownIDs {
		ids = append(ids, "and others")
	}
	return txn.ID{}, output.Usage("give more characters of the id", "%s is the beginning of several transactions: %s", prefix, strings.Join(ids, ", "))
}

// idPrefix validates a typed id or prefix, and normalizes it.
func idPrefix(arg string) (string, error) {
	if cluster, id, branch, ok := txn.ParseXID(arg); ok {
		return "", output.Usage("its transaction is "+id.String(), "%s names branch %s of a transaction of cluster %s", arg, branch, cluster)
	}
	rest := strings.TrimPrefix(strings.ToLower(arg), txn.IDPrefix)
	const letters = "0123456789abcdefghijklmnopqrstuvwxyz"
	if rest == "" || len(rest) > txn.IDTextLen-len(txn.IDPrefix) || strings.Trim(rest, letters) != "" {
		return "", output.Usage("txmgr list shows the ids", "%q is not a transaction id: want %s and up to %d letters and digits", arg, txn.IDPrefix, txn.IDTextLen-len(txn.IDPrefix))
	}
	return txn.IDPrefix + rest, nil
}

// completionTimeout bounds the wait of a shell for a completion.
const completionTimeout = 2 * time.Second

// complete returns a completion that calls the coordinator. If the coordinator cannot be reached,
// the completion is empty.
func (a *app) complete(candidates func(ctx context.Context, c *client.Client, args []string, word string) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if a.prepare(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := a.dial()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer func() { _ = c.Close() }() // the candidates were received
		ctx, cancel := context.WithTimeout(cmd.Context(), min(completionTimeout, a.requestTimeout))
		defer cancel()
		return candidates(ctx, c, args, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeTX completes the first argument with transactions, and the second one with participants
// if the command takes one.
func (a *app) completeTX(thenParticipant bool) cobra.CompletionFunc {
	return a.complete(func(ctx context.Context, c *client.Client, args []string, word string) []string {
		switch {
		case len(args) == 0:
			return transactionIDs(ctx, c, word)
		case len(args) == 1 && thenParticipant:
			return participantNames(ctx, c)
		}
		return nil
	})
}

func transactionIDs(ctx context.Context, c *client.Client, word string) []string {
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

func (a *app) completeParticipants() cobra.CompletionFunc {
	return a.complete(func(ctx context.Context, c *client.Client, _ []string, _ string) []string {
		return participantNames(ctx, c)
	})
}

func participantNames(ctx context.Context, c *client.Client) []string {
	all, err := c.Participants(ctx)
	if err != nil {
		return nil
	}
	var out []string
	for _, p := range all {
		out = append(out, cobra.CompletionWithDesc(p.Name, p.Kind))
	}
	return out
}
