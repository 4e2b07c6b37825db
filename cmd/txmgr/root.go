package main

import (
	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli/bench"
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

func rootCommand(a *cli.App) *cobra.Command {
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
	addGroup(root, groupTransactions, beginCommand(a), enlistCommand(a), commitCommand(a), rollbackCommand(a), extendCommand(a), waitCommand(a), execCommand(a), sessionCommand(a))
	addGroup(root, groupRepair, listCommand(a), inspectCommand(a), watchCommand(a), timeoutsCommand(a), indoubtCommand(a), recoverCommand(a), auditCommand(a), doctorCommand(a))
	addGroup(root, groupParticipants, participantCommand(a), adaptiveCommand(a))
	addGroup(root, groupServer, serverCommand(a), devCommand(a), demoCommand(a), bench.Command(a), statusCommand(a), configCommand(a))
	addGroup(root, groupCluster, clusterCommand(a), tokenCommand(a), snapshotCommand(a))
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
