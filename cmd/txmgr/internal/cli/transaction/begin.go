package transaction

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cell"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

type beginOptions struct {
	name    string
	timeout time.Duration
	labels  []string
	id      string
	mark    string
	session string
}

// BeginCommand returns txmgr begin.
func BeginCommand(a *cli.App) *cobra.Command {
	var o beginOptions
	cmd := &cobra.Command{
		Use:   "begin [PARTICIPANT...]",
		Short: "Begin a transaction",
		Long: `Begin a transaction, and enlist the participants that are named. Its timeout is counted
from now: unless the transaction is committed before it expires, it is rolled back. With
--session it is also rolled back when that session expires.

With -q only the id is printed.`,
		Example: `  txmgr begin
  txmgr begin bank stock --name order --timeout 30s --label customer=42
  id=$(txmgr begin -q bank)
  txmgr begin bank --session "$(txmgr session open -q)"`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.CompleteParticipants(),
	}
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "name, for display")
	f.DurationVar(&o.timeout, "timeout", 0, "time the transaction may stay undecided (default: the server's, 30s)")
	f.StringArrayVar(&o.labels, "label", nil, "label, as key=value; may be repeated")
	f.StringVar(&o.id, "id", "", "id of the transaction, so that this command can be repeated (default: a new one)")
	f.StringVar(&o.mark, "mark", "", "with --id: the mark that was known when the id was made, from the answer to an earlier begin; the same in every attempt (default: the time in the id is used)")
	f.StringVar(&o.session, "session", "", "session of the transaction (default: none)")
	_ = cmd.RegisterFlagCompletionFunc("session", a.CompleteSessions(true)) // the flag is there
	cmd.RunE = a.ShortCmd(func(ctx context.Context, c *client.Client, args []string) error {
		if cmd.Flags().Changed("timeout") && o.timeout <= 0 {
			return output.Usage("omit it for the server's default", "--timeout %v is not positive", o.timeout)
		}
		options, err := o.options(args)
		if err != nil {
			return err
		}
		begun, err := c.Begin(ctx, options)
		if err != nil && !options.Session.IsZero() {
			return cli.ExplainSession(err)
		}
		if err != nil {
			return err
		}
		return printBegin(a, begun)
	})
	return cmd
}

func (o *beginOptions) options(participants []string) (txn.Options, error) {
	labels, err := cli.ParseLabels(o.labels)
	if err != nil {
		return txn.Options{}, err
	}
	out := txn.Options{Name: o.name, Timeout: o.timeout, Labels: labels}
	if o.id != "" {
		if out.ID, err = txn.ParseID(o.id); err != nil {
			return txn.Options{}, err
		}
	}
	if out.Mark, err = txn.ParseMark(o.mark); err != nil {
		return txn.Options{}, err
	}
	if o.mark != "" && o.id == "" {
		return txn.Options{}, output.Usage("omit --mark, or give the id that it belongs to", "--mark is given without --id")
	}
	if o.session != "" {
		if out.Session, err = txn.ParseSessionID(o.session); err != nil {
			return txn.Options{}, err
		}
	}
	for _, p := range participants {
		out.Branches = append(out.Branches, txn.Enlistment{Participant: p})
	}
	return out, nil
}

type beginView struct {
	ID            txn.ID       `json:"id"`
	Timeout       txn.Duration `json:"timeout"`
	SurvivalIndex uint64       `json:"survival_index"`
	ExpiryTick    uint64       `json:"expiry_tick"`
	Branches      []branchView `json:"branches"`
	Mark          txn.Mark     `json:"mark"`
}

type branchView struct {
	ID          string `json:"id"`
	Participant string `json:"participant"`
	XID         string `json:"xid"`
}

func newBranchView(b txn.Branch) branchView {
	return branchView{ID: b.ID.String(), Participant: b.Participant, XID: b.XID}
}

func printBegin(a *cli.App, b txn.BeginResult) error {
	id := b.ID.String()
	if a.Quiet && !a.Print.Format.Structured() {
		a.Print.Format = output.IDFormat
	}
	view := beginView{ID: b.ID, Timeout: txn.Duration(b.Timeout), SurvivalIndex: b.SurvivalIndex, ExpiryTick: b.ExpiryTick, Branches: []branchView{}, Mark: b.Mark}
	head := output.Table{Columns: output.Columns("TX", "TIMEOUT", "SURVIVAL INDEX", "EXPIRY TICK")}
	head.Add(id, b.Timeout.String(), cell.Int(b.SurvivalIndex), cell.Int(b.ExpiryTick))
	tables := []output.Table{head}
	if len(b.Branches) > 0 {
		branches := output.Table{Columns: output.Columns("BRANCH", "PARTICIPANT", "XID")}
		for _, br := range b.Branches {
			view.Branches = append(view.Branches, newBranchView(br))
			branches.Add(br.ID.String(), br.Participant, br.XID)
		}
		tables = append(tables, branches)
	}
	return a.Print.Print(output.Document{Value: view, IDs: []string{id}, Tables: tables})
}
