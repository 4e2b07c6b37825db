package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

// helpCommand is the help command of cobra, except that an unknown topic is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command or a topic",
		Long:  "Help about a command, or about a topic: exit-codes, environment, states.",
		Example: `  txmgr help commit
  txmgr help exit-codes`,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			at, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, c := range at.Commands() {
				names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			at, rest, err := cmd.Root().Find(args)
			if err != nil || at == nil {
				return err
			}
			if len(rest) > 0 {
				return unknownCommand(at, rest[0])
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	}
}

func exitCodesTopic() *cobra.Command {
	long := "Scripts can rely on these exit codes. The names are also the codes of the API and of\nerrors printed with -o json.\n\n"
	for _, e := range output.ExitCodes() {
		long += fmt.Sprintf("  %3d  %-12s  %s\n", e.Status, e.Code, e.Meaning)
	}
	return &cobra.Command{Use: "exit-codes", Short: "The meanings of the exit codes", Long: long}
}

func statesTopic() *cobra.Command {
	long := `  active -> preparing -> committing -> committed
     \          \
      +----------+--> rolling-back -> rolled-back

`
	for s := txn.Active; s <= txn.RolledBack; s++ {
		long += fmt.Sprintf("  %-14s %s\n", s, output.StateMeaning(s))
	}
	long += `
A heuristic outcome is not a state but is shown beside it: a branch ended, or may have ended,
otherwise than decided, for example because of a manual COMMIT PREPARED.

Finished transactions are kept for the retention time of the server and then
forgotten: a request for a forgotten one is "not found" (exit code 5), which never
means committed.
`
	return &cobra.Command{Use: "states", Short: "The states of a transaction", Long: long}
}
