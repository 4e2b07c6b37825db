package script

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/branchexec"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cell"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

type execOptions struct {
	on      []string
	dsn     []string
	file    string
	name    string
	timeout time.Duration
	labels  []string
	session string
}

// step is one statement of a script.
type step struct{ on, run string }

// script is a whole transaction.
type script struct {
	name    string
	timeout time.Duration
	labels  map[string]string
	session txn.SessionID
	steps   []step
}

// Command returns txmgr exec.
func Command(a *cli.App) *cobra.Command {
	var o execOptions
	cmd := &cobra.Command{
		Use:   "exec --on PARTICIPANT STATEMENT [--on PARTICIPANT STATEMENT]...",
		Short: "Run a complete transaction across databases",
		Long: `Run statements on several participants in one transaction, in the order in which they
are given, and commit. Either all of them are applied or none: if none is, the exit
code is 3.

A postgres or mariadb participant takes SQL. A web service takes one payload in its own
format (often JSON): the coordinator sends it when all the others have voted. A ledger
takes: add ACCOUNT AMOUNT, set ACCOUNT AMOUNT, move FROM TO AMOUNT, get ACCOUNT; several
are separated by ';'.

The statements run in this process, not on the server: the settings of the participants
are looked up in this environment. --dsn gives another address.

With --session the transaction is also rolled back when that session expires; this
command does not renew the session.

A file for -f has this form:

  name: order
  timeout: 10s
  labels: {customer: "42"}
  steps:
    - on: bank
      run: UPDATE account SET balance = balance - 10 WHERE id = 1
    - on: stock
      run: UPDATE item SET n = n - 1 WHERE id = 7
    - on: mail
      run: {to: alice@example.org, subject: Your order}     # a map is sent as JSON`,
		Example: `  txmgr exec --on bank 'add alice -10' --on stock 'add apples -1'
  txmgr exec --timeout 5s --on bank "UPDATE account SET balance = balance - 10 WHERE id = 1" --on stock "UPDATE item SET n = n - 1 WHERE id = 7" --on mail '{"to": "alice@example.org"}'
  txmgr exec -f order.yaml -o json
  txmgr exec --session "$id" --timeout 1h --on bank 'add alice -10' --on stock 'add apples -1'`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.on, "on", nil, "participant of the statement that follows; may be repeated")
	f.StringArrayVar(&o.dsn, "dsn", nil, "address of a participant, as NAME=DSN, instead of the registered one; may be repeated")
	f.StringVarP(&o.file, "file", "f", "", "file with the transaction (- is standard input)")
	f.StringVar(&o.name, "name", "", "name, for display")
	f.DurationVar(&o.timeout, "timeout", 0, "time the transaction may stay undecided (default: the server's, 30s)")
	f.StringArrayVar(&o.labels, "label", nil, "label, as key=value; may be repeated")
	f.StringVar(&o.session, "session", "", "session of the transaction (default: none)")
	_ = cmd.RegisterFlagCompletionFunc("on", a.CompleteParticipants())      // the flag is there
	_ = cmd.RegisterFlagCompletionFunc("session", a.CompleteSessions(true)) // so is this one
	cmd.RunE = a.ClientCmd(func(ctx context.Context, c *client.Client, args []string) error {
		if cmd.Flags().Changed("timeout") && o.timeout <= 0 {
			return output.Usage("omit it for the server's default", "--timeout %v is not positive", o.timeout)
		}
		s, err := o.script(a, args)
		if err != nil {
			return err
		}
		return runScript(ctx, a, c, s, o.dsn)
	})
	return cmd
}

// script builds the transaction. Flags take precedence over the file.
func (o *execOptions) script(a *cli.App, args []string) (script, error) {
	var s script
	if o.file != "" {
		if len(o.on) > 0 || len(args) > 0 {
			return s, output.Usage("use one of the two", "-f and --on are both given")
		}
		var err error
		if s, err = readScript(a, o.file); err != nil {
			return s, err
		}
	} else if len(o.on) != len(args) || len(args) == 0 {
		return s, output.Usage("txmgr exec --on bank 'STATEMENT' --on stock 'STATEMENT'", "%s for %s",
			output.Plural(len(args), "statement", "statements"), output.Plural(len(o.on), "--on", "times --on"))
	}
	for i, on := range o.on {
		s.steps = append(s.steps, step{on: on, run: args[i]})
	}
	labels, err := cli.ParseLabels(o.labels)
	if err != nil {
		return s, err
	}
	if len(labels) > 0 {
		s.labels = labels
	}
	if o.name != "" {
		s.name = o.name
	}
	if o.timeout != 0 {
		s.timeout = o.timeout
	}
	if o.session != "" {
		s.session, err = txn.ParseSessionID(o.session)
	}
	return s, err
}

type execView struct {
	ID    txn.ID     `json:"id"`
	State txn.State  `json:"state"`
	Took  string     `json:"took"`
	Steps []stepView `json:"steps"`
}

type stepView struct {
	On  string `json:"on"`
	Run string `json:"run"`
	branchexec.Result
}

// runScript runs the statements and commits. It prints their results only after the commit: before it
// they are not final.
func runScript(ctx context.Context, a *cli.App, c *client.Client, s script, dsns []string) (err error) {
	sides, err := openExecutors(ctx, a, c, s, dsns)
	if err != nil {
		return err
	}
	defer func() {
		for _, side := range sides {
			err = errors.Join(err, side.Close())
		}
	}()
	began := time.Now()
	view := execView{Steps: []stepView{}}
	err = txn.Run(ctx, c, txn.Options{Name: s.name, Timeout: s.timeout, Labels: s.labels, Session: s.session}, func(ctx context.Context, tx *txn.Tx) error {
		view.ID = tx.ID()
		for _, st := range s.steps {
			r, err := sides[st.on].Run(ctx, tx, st.run)
			if err != nil {
				return withParticipant(st.on, err)
			}
			view.Steps = append(view.Steps, stepView{On: st.on, Run: st.run, Result: r})
		}
		return nil
	})
	if err != nil && view.ID.IsZero() && !s.session.IsZero() {
		return cli.ExplainSession(err) // the transaction was not begun
	}
	if err != nil {
		return execFailure(err)
	}
	took := time.Since(began)
	view.State, view.Took = txn.Committed, took.Round(time.Millisecond).String()
	return printExec(a, view, took)
}

// execFailure keeps the text of the database, which is the cause of the outcome.
func execFailure(err error) error {
	var e *txn.Error
	byHand := errors.Is(err, txn.ErrEndedByApplication)
	if !errors.As(err, &e) || !byHand && !errors.Is(err, txn.ErrRolledBack) {
		return err
	}
	f := *output.Explain(err)
	if _, why, ok := strings.Cut(err.Error(), e.Error()+": "); ok {
		if e.Cause == txn.CauseTimeout || e.Cause == txn.CauseSessionExpired {
			why = f.Cause + ": " + why
		}
		f.Cause = why
	}
	if !byHand {
		f.State = txn.RolledBack.String() + ": " + output.StateMeaning(txn.RolledBack)
	}
	return &f
}

// openExecutors opens each participant that the script names, once.
func openExecutors(ctx context.Context, a *cli.App, c *client.Client, s script, dsns []string) (map[string]branchexec.Executor, error) {
	ctx, cancel := context.WithTimeout(ctx, a.RequestTimeout)
	defer cancel()
	registered, err := c.Admin().Participants(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]admin.Participant{}
	for _, p := range registered {
		known[p.Name] = p.Participant
	}
	for _, word := range dsns {
		name, dsn, ok := strings.Cut(word, "=")
		p, registered := known[name]
		if !ok || !registered {
			return nil, output.Usage("write it as --dsn NAME=DSN", "--dsn names no participant that is registered (it is not shown because it may hold a password)")
		}
		if p.Settings["dsn"]+p.Settings["dsn_env"]+p.Settings["dsn_file"] == "" {
			return nil, output.Usage("", "--dsn %s: a participant of kind %s has no address of a database", name, p.Kind)
		}
		p.Settings = maps.Clone(p.Settings)
		p.Settings["dsn"] = dsn
		known[name] = p
	}
	sides := map[string]branchexec.Executor{}
	for _, st := range s.steps {
		if sides[st.on] != nil {
			continue
		}
		p, ok := known[st.on]
		if !ok {
			return nil, unknownParticipant(st.on, known)
		}
		if sides[st.on], err = branchexec.Open(ctx, p, os.Getenv); err != nil {
			return nil, err
		}
	}
	return sides, nil
}

func unknownParticipant(name string, known map[string]admin.Participant) error {
	next := output.DidYouMean(name, slices.Sorted(maps.Keys(known)), "--on ")
	if next == "" {
		next = "txmgr participant list shows the participants"
	}
	return &output.Failure{Code: txn.CodeNotFound, What: fmt.Sprintf("participant %q is not registered", name), Hint: next, Err: txn.ErrNotFound}
}

func printExec(a *cli.App, v execView, took time.Duration) error {
	head := output.Table{Columns: []output.Column{{Name: "TX"}, {Name: "STATE", State: true}, {Name: "IN"}}}
	head.Add(v.ID.String(), v.State.String(), output.Since(took))
	steps := output.Table{Columns: []output.Column{{Name: "ON"}, {Name: "ROWS"}, {Name: "STATEMENT"}}}
	tables := []output.Table{head, steps}
	for _, s := range v.Steps {
		rows := cell.Int(s.Affected)
		if s.Deferred {
			rows = "" // the statement returned no rows
		}
		steps.Add(s.On, rows, s.Run)
		if len(s.Columns) == 0 {
			continue
		}
		tables = append(tables, output.Table{Columns: output.Columns(s.Columns...), Rows: s.Rows})
	}
	tables[1] = steps
	return a.Print.Print(output.Document{Value: v, IDs: []string{v.ID.String()}, Tables: tables})
}

// withParticipant puts the name of the participant into an error, once.
func withParticipant(participant string, err error) error {
	if strings.HasPrefix(err.Error(), participant+": ") {
		return err
	}
	return fmt.Errorf("%s: %w", participant, err)
}
