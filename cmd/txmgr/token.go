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
)

func tokenCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Say who may do what",
		Long: `Make tokens, and take them back. A token admits whoever knows its secret, to as much as
its role allows; each role may do all that the one before it may:

  reader     look
  client     begin, decide and report transactions
  operator   resolve doubts, scan, and change participants
  admin      change the cluster and its tokens

The cluster knows only hashes of secrets. Tokens count where the server runs with
--auth or --root-token-file; the first token is made with the root token.`,
	}
	groupCommand(cmd)
	cmd.AddCommand(tokenCreateCommand(a), tokenListCommand(a), tokenRevokeCommand(a))
	return cmd
}

func roleNames() []string {
	var out []string
	for r := txn.RoleReader; r <= txn.RoleAdmin; r++ {
		out = append(out, r.String())
	}
	return out
}

func tokenCreateCommand(a *app) *cobra.Command {
	var role string
	var ttl time.Duration
	var rate uint32
	cmd := &cobra.Command{
		Use:   "create NAME --role ROLE",
		Short: "Make a token and show its secret, once",
		Long: `Make a token and show its secret, which nobody can see again. With -q nothing but the
secret is printed, for a file. NAME is what the audit says of those who use it.`,
		Example: `  txmgr token create app --role client -q
  txmgr token create ann --role operator --ttl 720h
  txmgr token create probe --role reader --rate 10`,
		Args:              argCount(1, 1, "NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&role, "role", "", strings.Join(roleNames(), ", ")+"; required")
	f.DurationVar(&ttl, "ttl", 0, "how long it is good (default: for ever)")
	f.Uint32Var(&rate, "rate", 0, "the most calls a second on one node (default: no limit)")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(roleNames(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	cmd.RunE = a.shortCmd(func(ctx context.Context, c *client.Client, args []string) error {
		r := txn.TokenRequest{Name: args[0], TTL: ttl, Rate: rate, By: a.operatorName()}
		if role == "" {
			return output.Usage("--role "+strings.Join(roleNames(), ", or "), "token %s: no --role given", args[0])
		}
		var err error
		if r.Role, err = txn.ParseRole(role); err != nil {
			return output.Usage(output.DidYouMean(role, roleNames(), "--role "), "--role %q: want %s", role, strings.Join(roleNames(), ", "))
		}
		if err := r.Check(); err != nil {
			return err
		}
		made, secret, err := c.CreateToken(ctx, r)
		if err != nil {
			return err
		}
		return a.printToken(made, secret)
	})
	return cmd
}

func (a *app) printToken(made txn.Token, secret string) error {
	if a.quiet && !a.print.Format.Structured() {
		_, err := fmt.Fprintln(a.out, secret)
		return err
	}
	a.print.Note("nobody can see the secret again: keep it in a file that only its user can read")
	t := output.Table{Columns: []output.Column{{Name: "FIELD"}, {Name: "VALUE"}}}
	t.Add("id", made.ID)
	t.Add("name", made.Name)
	t.Add("role", made.Role.String())
	t.Add("rate", rateText(made.Rate))
	t.Add("expires", expiryText(made.Expires))
	t.Add("secret", secret)
	value := struct {
		txn.Token
		Secret string `json:"secret"`
	}{made, secret}
	return a.print.Print(output.Document{Value: value, IDs: []string{made.ID}, Tables: []output.Table{t}})
}

func rateText(rate uint32) string {
	if rate == 0 {
		return "no limit"
	}
	return fmt.Sprintf("%d/s", rate)
}

func expiryText(t time.Time) string {
	switch left := time.Until(t); {
	case t.IsZero():
		return "never"
	case left <= 0:
		return formatTime(t) + " (expired)"
	default:
		return formatTime(t) + " (in " + output.Since(left) + ")"
	}
}

func tokenListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "list",
		Aliases:           []string{"ls"},
		Short:             "List the tokens",
		Long:              "List the tokens, without their secrets, which nobody knows. The root token of a server's\nfile is none of them.",
		Example:           "  txmgr token list -o wide",
		Args:              noArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.shortCmd(func(ctx context.Context, c *client.Client, _ []string) error {
			all, err := c.Tokens(ctx)
			if err != nil {
				return err
			}
			if all == nil {
				all = []txn.Token{}
			}
			t := output.Table{Columns: []output.Column{
				{Name: "TOKEN"}, {Name: "NAME"}, {Name: "ROLE"}, {Name: "RATE"}, {Name: "EXPIRES"}, {Name: "MADE", Wide: true}, {Name: "BY", Wide: true},
			}}
			ids := make([]string, len(all))
			for i, k := range all {
				ids[i] = k.ID
				t.Add(k.ID, k.Name, k.Role.String(), rateText(k.Rate), expiryText(k.Expires), formatTime(k.Created), k.By)
			}
			return a.print.Print(output.Document{Value: all, IDs: ids, Tables: []output.Table{t}})
		}),
	}
}

func tokenRevokeCommand(a *app) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "revoke TOKEN",
		Short: "Take a token back",
		Long: `Take a token back, by its id or name. From then on it admits nobody, on any node that
hears of it.`,
		Example:           `  txmgr token revoke app --reason "it was in a log"`,
		Args:              argCount(1, 1, "TOKEN"),
		ValidArgsFunction: a.completeTokens(),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; required, the audit keeps it")
	cmd.RunE = a.clientCmd(func(ctx context.Context, c *client.Client, args []string) error {
		if err := requireReason(reason); err != nil {
			return err
		}
		if err := a.confirm(fmt.Sprintf("Revoke token %s?", args[0])); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, a.requestTimeout)
		defer cancel()
		if err := c.RevokeToken(ctx, args[0], a.operatorName(), reason); err != nil {
			if txn.CodeOf(err) != txn.CodeNotFound {
				return err
			}
			f := *output.Explain(err)
			f.Next = "txmgr token list shows the tokens"
			return &f
		}
		t := output.Table{Columns: output.Columns("TOKEN", "REVOKED")}
		t.Add(args[0], "yes")
		return a.print.Print(output.Document{Value: map[string]any{"token": args[0], "revoked": true}, IDs: args, Tables: []output.Table{t}})
	})
	return cmd
}

func (a *app) completeTokens() cobra.CompletionFunc {
	return a.complete(func(ctx context.Context, c *client.Client, args []string, _ string) (out []string) {
		if len(args) > 0 {
			return nil
		}
		all, err := c.Tokens(ctx)
		if err != nil {
			return nil
		}
		for _, k := range all {
			out = append(out, cobra.CompletionWithDesc(k.ID, k.Name+" "+k.Role.String()))
		}
		return out
	})
}
