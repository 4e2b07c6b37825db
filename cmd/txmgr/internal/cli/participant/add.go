package participant

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cell"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/drivers"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/node/participants"
	"github.com/txmgr/txmgr/txn/admin"
)

type addOptions struct {
	kind       string
	dsnEnv     string
	dsnFile    string
	dsn        string
	url        string
	path       string
	optimize   string
	settings   []string
	reason     string
	skipChecks bool
}

func participantAddCommand(a *cli.App) *cobra.Command {
	var o addOptions
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Register a participant, or change its settings",
		Long: `Register a participant, or change the settings of a registered one of the same kind. Then
its health checks run, and each problem is printed with its remedy. The participant is
registered in any case, and the exit code is 0: a script that needs the result runs txmgr
doctor NAME, or participant test. A change of the settings of a healthy participant has to
be confirmed; --yes confirms it. The same settings again change nothing. txmgr audit list
shows who registered what: user@host, or as ` + cli.UserVariable + ` says, and with
authentication the name of the token.

The kinds, and their settings for --set beside the flags below:

  postgres  a PostgreSQL database, by PREPARE TRANSACTION     fence, commit_marker
  mariadb   a MariaDB database, by XA                         fence, commit_marker
  web       an HTTP service in any language                   prepare, commit, rollback,
            list, allow, secret_file, secret_env, ca_file, timeout
  ledger    an embedded store, for trials

and for each of them quota: the maximum number of its open branches; and optimizer.

Secrets are not copied. Each server, and txmgr exec, finds the address of a database in
the variable or the file that is named here, in its own environment; the secret that signs
calls to a service is found in the file of secret_file. The registration is replicated,
and every client can read it.`,
		Example: `  txmgr participant add bank --kind postgres --dsn-env BANK_DSN
  txmgr participant add bank --kind postgres --dsn-file /etc/txmgr/bank.dsn --set quota=100
  txmgr participant add stock --kind mariadb --dsn-file /etc/txmgr/stock.dsn
  txmgr participant add mail --kind web --url http://127.0.0.1:8025/txmgr --set list=/prepared
  txmgr participant add mail --kind web --url https://mail.internal/txmgr --set secret_file=/etc/txmgr/mail.key
  txmgr participant add shelf --kind ledger --path /var/lib/shelf.db`,
		Args:              cli.ArgCount(1, 1, "NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&o.kind, "kind", "", strings.Join(drivers.Kinds(), ", "))
	f.StringVar(&o.dsnEnv, "dsn-env", "", "environment variable that contains the address of the database")
	f.StringVar(&o.dsnFile, "dsn-file", "", "file that contains the address of the database")
	f.StringVar(&o.dsn, "dsn", "", "address of the database itself; it must contain no secret")
	f.StringVar(&o.url, "url", "", "URL of a web service; /prepare, /commit and /rollback are appended")
	f.StringVar(&o.path, "path", "", "file of a ledger")
	f.StringVar(&o.optimize, "optimizer", "", "optimizer of the number of concurrent calls: knee, throughput, mean or p99, or fixed:N (default: that of the server)")
	f.StringArrayVar(&o.settings, "set", nil, "any other setting of the kind, as key=value; may be repeated")
	f.StringVar(&o.reason, "reason", "", "reason; recorded in the audit")
	f.BoolVar(&o.skipChecks, "no-doctor", false, "run no health checks, for a participant that is not available yet")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(drivers.Kinds(), cobra.ShellCompDirectiveNoFileComp)) // the flags
	_ = cmd.RegisterFlagCompletionFunc("optimizer", cli.CompleteOptimizers)                                                 // are there
	cmd.RunE = a.ClientCmd(func(ctx context.Context, c *client.Client, args []string) error {
		p, err := o.registration(args[0])
		if err != nil {
			return err
		}
		changes, err := confirmReplace(ctx, a, c, p)
		if err != nil {
			return err
		}
		calling, cancel := context.WithTimeout(ctx, a.RequestTimeout)
		defer cancel()
		if err := c.Admin().AddParticipant(calling, p, a.OperatorName(), o.reason); err != nil {
			return err
		}
		if o.skipChecks {
			return printAdded(a, p, changes, nil)
		}
		fanoutCtx, cancel := a.WithTimeout(ctx)
		defer cancel()
		found, err := c.Admin().Doctor(fanoutCtx, p.Name)
		if err != nil {
			f := *output.Explain(err)
			f.State = p.Name + " is registered"
			f.Hint = "txmgr doctor " + p.Name
			return &f
		}
		if len(failingScopes(found)) > 0 {
			a.Print.Note("%s is registered, but health checks failed: correct the failures, and run them again: txmgr doctor %[1]s", p.Name)
		}
		return printAdded(a, p, changes, found)
	})
	return cmd
}

// printAdded prints a registration and the results of its health check; of the checks that passed
// only the number.
func printAdded(a *cli.App, p admin.Participant, changes []string, found []admin.Check) error {
	for _, change := range changes {
		a.Print.Note("changed: %s", change)
	}
	bad := []admin.Check{}
	for _, d := range withCommands(found) {
		if d.Level != levelOK {
			bad = append(bad, d)
		}
	}
	t := output.Table{Columns: output.Columns("PARTICIPANT", "KIND", "SETTINGS")}
	t.Add(p.Name, p.Kind, cell.Labels(p.Settings))
	var page output.Page
	writeChecks(&page, bad)
	if fine := len(found) - len(bad); fine > 0 {
		page.Row(output.Plural(fine, "check", "checks")+" passed: txmgr doctor "+p.Name, levelOK, p.Name)
	}
	value := struct {
		Name     string            `json:"name"`
		Kind     string            `json:"kind"`
		Settings map[string]string `json:"settings"`
		Changes  []string          `json:"changes"`  // of settings that were registered before
		Findings []admin.Check     `json:"findings"` // warnings and failures
	}{p.Name, p.Kind, p.Settings, append([]string{}, changes...), bad}
	return a.Print.Print(output.Document{Value: value, IDs: []string{p.Name}, Tables: []output.Table{t}, Page: page})
}

// registration turns the flags into settings. It makes paths absolute, since the server runs in
// another directory.
func (o *addOptions) registration(name string) (admin.Participant, error) {
	p := admin.Participant{Name: name, Kind: o.kind, Settings: map[string]string{}}
	if o.kind == "" {
		return p, output.Usage("--kind "+strings.Join(drivers.Kinds(), ", or "), "participant %s: no --kind given", name)
	}
	for _, w := range o.settings {
		k, v, ok := strings.Cut(w, "=")
		if !ok || k == "" {
			return p, output.Usage("write it as --set key=value", "--set %q has no key and value", w)
		}
		p.Settings[k] = v
	}
	for _, s := range []struct{ key, value string }{
		{"dsn_env", o.dsnEnv},
		{"dsn_file", o.dsnFile},
		{"dsn", o.dsn},
		{"url", o.url},
		{"path", o.path},
		{participants.OptimizerSetting, o.optimize},
	} {
		if s.value != "" {
			p.Settings[s.key] = s.value
		}
	}
	for _, key := range []string{"dsn_file", "secret_file", "ca_file", "path"} {
		if p.Settings[key] == "" {
			continue
		}
		abs, err := filepath.Abs(p.Settings[key])
		if err != nil {
			return p, fmt.Errorf("find %s: %w", p.Settings[key], err)
		}
		p.Settings[key] = abs
	}
	return p, p.Check()
}
