package root

import (
	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli/bench"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli/cluster"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli/participant"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli/repair"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli/script"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli/serve"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli/snapshot"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli/transaction"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
)

// The groups of commands in the help.
const (
	groupTransactions = "transactions"
	groupRepair       = "repair"
	groupParticipants = "participants"
	groupServer       = "server"
	groupCluster      = "cluster"
)

// Command returns the command txmgr, with all of its commands. [cli.App.Run] runs it.
func Command(a *cli.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "txmgr",
		Short: "Commit one transaction across several databases",
		Long: `txmgr coordinates transactions that span several databases: every database ends as
decided, on time, whatever crashes.

Start here:  txmgr demo    runs a demo of txmgr (half a minute)
             txmgr dev     runs a temporary server to try the commands on`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.Prepare(cmd) },
	}
	cli.GroupCommand(root)
	root.SetFlagErrorFunc(cli.FlagFailure)
	root.AddGroup(
		&cobra.Group{ID: groupTransactions, Title: "Transactions:"},
		&cobra.Group{ID: groupRepair, Title: "Inspect and resolve:"},
		&cobra.Group{ID: groupParticipants, Title: "Participants:"},
		&cobra.Group{ID: groupServer, Title: "Server:"},
		&cobra.Group{ID: groupCluster, Title: "Cluster:"},
	)
	addGroup(root, groupTransactions, transaction.BeginCommand(a), transaction.EnlistCommand(a), transaction.CommitCommand(a), transaction.RollbackCommand(a), transaction.ExtendCommand(a), transaction.WaitCommand(a), script.Command(a), transaction.SessionCommand(a))
	addGroup(root, groupRepair, transaction.ListCommand(a), transaction.InspectCommand(a), transaction.WatchCommand(a), transaction.TimeoutsCommand(a), repair.InDoubtCommand(a), repair.RecoverCommand(a), repair.AuditCommand(a), participant.DoctorCommand(a))
	addGroup(root, groupParticipants, participant.Command(a), participant.AdaptiveCommand(a))
	addGroup(root, groupServer, serve.ServerCommand(a), serve.DevCommand(a), demoCommand(a), bench.Command(a), cluster.StatusCommand(a), serve.ConfigCommand(a))
	addGroup(root, groupCluster, cluster.Command(a), cluster.TokenCommand(a), snapshot.Command(a))
	root.AddCommand(versionCommand(a), exitCodesTopic(), environmentTopic(), statesTopic())
	root.SetHelpCommand(helpCommand())
	a.Flags(root.PersistentFlags())
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(output.Formats(), cobra.ShellCompDirectiveNoFileComp))                   // the flags
	_ = root.RegisterFlagCompletionFunc("color", cobra.FixedCompletions([]string{"auto", "always", "never"}, cobra.ShellCompDirectiveNoFileComp)) // are there
	return root
}

func addGroup(root *cobra.Command, id string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = id
		root.AddCommand(c)
	}
}
