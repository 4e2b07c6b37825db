package main

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn"
)

func participantCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "participant",
		Short: "Register and look at the databases that take part",
		Long: `Register and look at the databases that take part. A registration is replicated and
readable by everybody: it says where the secret is found, not what it is.`,
	}
	parent(cmd)
	cmd.AddCommand(participantAddCommand(a), participantListCommand(a), participantTestCommand(a), participantRemoveCommand(a))
	return cmd
}

type addOptions struct {
	kind     string
	dsnEnv   string
	dsnFile  string
	dsn      string
	path     string
	settings []string
}

func participantAddCommand(a *app) *cobra.Command {
	var o addOptions
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Register a participant, or change its settings",
		Long: `Register a participant, or change the settings of a known one of the same kind.

The kinds are postgres and ledger (an embedded store, for trying things out). Each
server, and txmgr exec, finds the address of a database in the variable or the file
that is named here, in its own environment.`,
		Example: `  txmgr participant add bank --kind postgres --dsn-env BANK_DSN
  txmgr participant add bank --kind postgres --dsn-file /etc/txmgr/bank.dsn
  txmgr participant add stock --kind ledger --path /var/lib/stock.db`,
		Args:              takes(1, 1, "NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&o.kind, "kind", "", "postgres or ledger")
	f.StringVar(&o.dsnEnv, "dsn-env", "", "the environment variable that holds the address of the database")
	f.StringVar(&o.dsnFile, "dsn-file", "", "the file that holds the address of the database")
	f.StringVar(&o.dsn, "dsn", "", "the address of the database itself: it must hold no secret")
	f.StringVar(&o.path, "path", "", "the file of a ledger")
	f.StringArrayVar(&o.settings, "set", nil, "any other setting of the kind, as key=value; may be repeated")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions([]string{postgres.Kind, ledger.Kind}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	cmd.RunE = a.brief(func(ctx context.Context, c *client.Client, args []string) error {
		p, err := o.registration(args[0])
		if err != nil {
			return err
		}
		if err := c.AddParticipant(ctx, p); err != nil {
			return err
		}
		a.print.Note("txmgr participant test %s tries whether it can take part", p.Name)
		return a.printParticipants([]txn.ParticipantStatus{{Participant: p}}, false)
	})
	return cmd
}

// registration turns the flags into settings. Paths are made absolute here,
// since the server is at home in another directory.
func (o *addOptions) registration(name string) (txn.Participant, error) {
	p := txn.Participant{Name: name, Kind: o.kind, Settings: map[string]string{}}
	if o.kind == "" {
		return p, output.Usage("--kind postgres or --kind ledger", "participant %s: no --kind given", name)
	}
	for _, w := range o.settings {
		k, v, ok := strings.Cut(w, "=")
		if !ok || k == "" {
			return p, output.Usage("write it as --set key=value", "--set %q has no key and value", w)
		}
		p.Settings[k] = v
	}
	for _, s := range []struct{ key, value string }{{"dsn_env", o.dsnEnv}, {"dsn_file", o.dsnFile}, {"dsn", o.dsn}, {"path", o.path}} {
		if s.value == "" {
			continue
		}
		if s.key == "dsn_file" || s.key == "path" {
			abs, err := filepath.Abs(s.value)
			if err != nil {
				return p, fmt.Errorf("find %s: %w", s.value, err)
			}
			s.value = abs
		}
		p.Settings[s.key] = s.value
	}
	return p, p.Check()
}

func participantListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "list",
		Aliases:           []string{"ls"},
		Short:             "List the participants and their health",
		Long:              "List the participants, and their health as the server sees it. With -o wide also the\nsettings.",
		Example:           "  txmgr participant list -o wide",
		Args:              nothing(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.brief(func(ctx context.Context, c *client.Client, _ []string) error {
			all, err := c.Participants(ctx)
			if err != nil {
				return err
			}
			return a.printParticipants(all, true)
		}),
	}
}

func participantTable(all []txn.ParticipantStatus, health bool) output.Table {
	t := output.Table{Columns: []output.Column{{Name: "PARTICIPANT"}, {Name: "KIND"}}}
	if health {
		t.Columns = append(t.Columns, output.Column{Name: "HEALTHY", State: true}, output.Column{Name: "RUNNING"},
			output.Column{Name: "QUEUED"}, output.Column{Name: "NEXT TRY"}, output.Column{Name: "LAST ERROR"})
	}
	t.Columns = append(t.Columns, output.Column{Name: "SETTINGS", Wide: health})
	for _, p := range all {
		row := []string{p.Name, p.Kind}
		if health {
			healthy := "no"
			if p.Healthy {
				healthy = "yes"
			}
			row = append(row, healthy, count(p.Running), count(p.Queued), span(p.NextTry), p.LastError)
		}
		t.Add(append(row, labelText(p.Settings))...)
	}
	return t
}

func (a *app) printParticipants(all []txn.ParticipantStatus, health bool) error {
	names := make([]string, len(all))
	statuses := make([]txn.ParticipantStatus, len(all))
	plain := make([]txn.Participant, len(all))
	for i, p := range all {
		if p.Settings == nil {
			p.Settings = map[string]string{}
		}
		names[i], statuses[i], plain[i] = p.Name, p, p.Participant
	}
	d := output.Document{Value: statuses, IDs: names, Tables: []output.Table{participantTable(statuses, health)}}
	if !health {
		d.Value = plain[0]
	}
	return a.print.Print(d)
}

func participantTestCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "test NAME...",
		Short: "Try whether a participant can take part",
		Long: `Try whether participants can take part: reachable from the server, configured for
prepared transactions, with sufficient rights. A problem is exit code 10.`,
		Example:           "  txmgr participant test bank",
		Args:              takes(1, -1, "at least one NAME"),
		ValidArgsFunction: a.completeParticipants(),
		RunE: a.brief(func(ctx context.Context, c *client.Client, args []string) error {
			t := output.Table{Columns: []output.Column{{Name: "PARTICIPANT"}, {Name: "HEALTHY", State: true}, {Name: "PROBLEM"}}}
			type result struct {
				Name    string `json:"name"`
				Healthy bool   `json:"healthy"`
				Problem string `json:"problem"`
			}
			var results []result
			var bad []string
			for _, name := range args {
				err := c.TestParticipant(ctx, name)
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
			if err := a.print.Print(output.Document{Value: results, IDs: args, Tables: []output.Table{t}}); err != nil || len(bad) == 0 {
				return err
			}
			return &output.Failure{
				Code: txn.CodeUnhealthy, What: strings.Join(bad, ", ") + " cannot take part",
				Cause: results[slices.IndexFunc(results, func(r result) bool { return !r.Healthy })].Problem,
				Next:  "correct it and test again: txmgr participant test " + strings.Join(bad, " "),
			}
		}),
	}
}

func participantRemoveCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Aliases: []string{"rm"},
		Short:   "Take a registration back",
		Long: `Take a registration back. It is refused while a branch there is not finished
(exit code 6). What the participant holds prepared under other names stays there.`,
		Example:           "  txmgr participant remove bank --yes",
		Args:              takes(1, 1, "NAME"),
		ValidArgsFunction: a.completeParticipants(),
		RunE: a.online(func(ctx context.Context, c *client.Client, args []string) error {
			if err := a.confirm(fmt.Sprintf("Remove participant %s?", args[0])); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(ctx, a.requestTimeout)
			defer cancel()
			if err := c.RemoveParticipant(ctx, args[0]); err != nil {
				return err
			}
			t := output.Table{Columns: output.Columns("PARTICIPANT", "REMOVED")}
			t.Add(args[0], "yes")
			return a.print.Print(output.Document{
				Value: map[string]any{"name": args[0], "removed": true}, IDs: args, Tables: []output.Table{t},
			})
		}),
	}
}

// confirm asks a person. Where nobody can answer, --yes is the answer.
func (a *app) confirm(question string) error {
	if a.yes {
		return nil
	}
	in, ok := a.in.(*os.File)
	if a.noInput || !ok || !output.IsTerminal(in) {
		return output.Usage("--yes answers it", "%s nobody is there to answer", question)
	}
	_, _ = fmt.Fprint(a.err, question+" [y/N] ") // the answer shows whether it was seen
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return output.Usage("", "not done, as you said")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
