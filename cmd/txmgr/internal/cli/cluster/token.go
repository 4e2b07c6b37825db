package cluster

import (
	"context"
	"fmt"
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

// TokenCommand returns txmgr token.
func TokenCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Manage tokens",
		Long: `Create, list and revoke tokens. A token authenticates every client that knows its secret;
its role is what the client may do, and each role includes the roles before it:

  reader     read
  client     begin, decide and report transactions
  operator   resolve transactions in doubt, scan, and change participants
  admin      change the cluster and its tokens

The cluster stores only hashes of secrets. Tokens are checked where the server runs with
--auth or --root-token-file; the first token is created with the root token.`,
	}
	cli.GroupCommand(cmd)
	cmd.AddCommand(tokenCreateCommand(a), tokenListCommand(a), tokenRevokeCommand(a))
	return cmd
}

func roleNames() []string {
	var out []string
	for r := admin.RoleReader; r <= admin.RoleAdmin; r++ {
		out = append(out, r.String())
	}
	return out
}

func tokenCreateCommand(a *cli.App) *cobra.Command {
	var role, reason string
	var ttl time.Duration
	var rate uint32
	cmd := &cobra.Command{
		Use:   "create NAME --role ROLE",
		Short: "Create a token and print its secret once",
		Long: `Create a token and print its secret, which cannot be shown again. With -q only the secret
is printed, for a file. NAME is the name of the token's users in the audit.`,
		Example: `  txmgr token create app --role client -q
  txmgr token create ann --role operator --ttl 720h
  txmgr token create probe --role reader --rate 10`,
		Args:              cli.ArgCount(1, 1, "NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&role, "role", "", strings.Join(roleNames(), ", ")+"; required")
	f.DurationVar(&ttl, "ttl", 0, "time until the token expires (default: never)")
	f.Uint32Var(&rate, "rate", 0, "maximum number of calls per second on one node (default: no limit)")
	f.StringVar(&reason, "reason", "", "reason; recorded in the audit")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(roleNames(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	cmd.RunE = a.ShortCmd(func(ctx context.Context, c *client.Client, args []string) error {
		r := admin.TokenRequest{Name: args[0], TTL: ttl, Rate: rate, By: a.OperatorName(), Reason: reason}
		if role == "" {
			return output.Usage("--role "+strings.Join(roleNames(), ", or "), "token %s: no --role given", args[0])
		}
		var err error
		if r.Role, err = admin.ParseRole(role); err != nil {
			return output.Usage(output.DidYouMean(role, roleNames(), "--role "), "--role %q: want %s", role, strings.Join(roleNames(), ", "))
		}
		if err := r.Check(); err != nil {
			return err
		}
		made, secret, err := c.Admin().CreateToken(ctx, r)
		switch txn.CodeOf(err) {
		case txn.CodeOK:
		case txn.CodeConflict: // the name is taken
			return listTokensNext(err)
		default:
			return err
		}
		return printToken(a, made, secret)
	})
	return cmd
}

// listTokensNext adds to an error the command that shows the tokens.
func listTokensNext(err error) error {
	f := *output.Explain(err)
	f.Hint = "txmgr token list shows the tokens"
	return &f
}

func printToken(a *cli.App, made admin.Token, secret string) error {
	if a.Quiet && !a.Print.Format.Structured() {
		_, err := fmt.Fprintln(a.Out, secret)
		return err
	}
	a.Print.Note("the secret cannot be shown again: store it in a file that only its user can read")
	t := output.Table{Columns: []output.Column{{Name: "FIELD"}, {Name: "VALUE"}}}
	t.Add("id", made.ID)
	t.Add("name", made.Name)
	t.Add("role", made.Role.String())
	t.Add("rate", rateText(made.Rate))
	t.Add("expires", expiryText(made.Expires))
	t.Add("secret", secret)
	value := struct {
		admin.Token
		Secret string `json:"secret"`
	}{made, secret}
	return a.Print.Print(output.Document{Value: value, IDs: []string{made.ID}, Tables: []output.Table{t}})
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
		return cell.Time(t) + " (expired)"
	default:
		return cell.Time(t) + " (in " + output.Since(left) + ")"
	}
}

func tokenListCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:               "list",
		Aliases:           []string{"ls"},
		Short:             "List the tokens",
		Long:              "List the tokens, without their secrets, which are not stored. The root token of a server is\nnot among them.",
		Example:           "  txmgr token list -o wide",
		Args:              cli.NoArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.ShortCmd(func(ctx context.Context, c *client.Client, _ []string) error {
			all, err := c.Admin().Tokens(ctx)
			if err != nil {
				return err
			}
			if all == nil {
				all = []admin.Token{}
			}
			t := output.Table{Columns: []output.Column{
				{Name: "TOKEN"}, {Name: "NAME"}, {Name: "ROLE"}, {Name: "RATE"}, {Name: "EXPIRES"}, {Name: "CREATED", Wide: true}, {Name: "BY", Wide: true},
			}}
			ids := make([]string, len(all))
			for i, k := range all {
				ids[i] = k.ID
				t.Add(k.ID, k.Name, k.Role.String(), rateText(k.Rate), expiryText(k.Expires), cell.Time(k.Created), k.By)
			}
			return a.Print.Print(output.Document{Value: all, IDs: ids, Tables: []output.Table{t}})
		}),
	}
}

func tokenRevokeCommand(a *cli.App) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "revoke TOKEN",
		Short: "Revoke a token",
		Long: `Revoke a token, by its id or name. From then on it is rejected by every node that has
received the revocation.`,
		Example:           `  txmgr token revoke app --reason "it was in a log"`,
		Args:              cli.ArgCount(1, 1, "TOKEN"),
		ValidArgsFunction: completeTokens(a),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason; required, recorded in the audit")
	cmd.RunE = a.ClientCmd(func(ctx context.Context, c *client.Client, args []string) error {
		if err := cli.RequireReason(reason); err != nil {
			return err
		}
		if err := a.Confirm(fmt.Sprintf("Revoke token %s?", args[0])); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, a.RequestTimeout)
		defer cancel()
		if err := c.Admin().RevokeToken(ctx, args[0], a.OperatorName(), reason); err != nil {
			if txn.CodeOf(err) != txn.CodeNotFound {
				return err
			}
			return listTokensNext(err)
		}
		t := output.Table{Columns: output.Columns("TOKEN", "REVOKED")}
		t.Add(args[0], "yes")
		return a.Print.Print(output.Document{Value: map[string]any{"token": args[0], "revoked": true}, IDs: args, Tables: []output.Table{t}})
	})
	return cmd
}

func completeTokens(a *cli.App) cobra.CompletionFunc {
	return a.Complete(func(ctx context.Context, c *client.Client, args []string, _ string) (out []string) {
		if len(args) > 0 {
			return nil
		}
		all, err := c.Admin().Tokens(ctx)
		if err != nil {
			return nil
		}
		for _, k := range all {
			out = append(out, cobra.CompletionWithDesc(k.ID, k.Name+" "+k.Role.String()))
		}
		return out
	})
}
