package root

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli/serve"
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
				return cli.UnknownCommand(at, rest[0])
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

func environmentTopic() *cobra.Command {
	long := `Flags take precedence over the environment, the environment over files, and files over
defaults.

Every command:
`
	for _, v := range cli.Environment() {
		long += fmt.Sprintf("  %-28s --%s\n", v.Name, v.Flag)
	}
	long += fmt.Sprintf("  %-28s %s\n", cli.TokenVariable, "the secret of the token itself; --token-file takes precedence")
	long += fmt.Sprintf("  %-28s %s\n", "NO_COLOR", "if it is set to any value: no colors, unless --color requests them")
	long += fmt.Sprintf("  %-28s %s\n", cli.UserVariable, "the name of the operator in the audit (default: user@host)")
	long += "\ntxmgr server:\n"
	for _, v := range serve.Environment() {
		long += fmt.Sprintf("  %-28s --%s\n", v.Name, v.Flag)
	}
	long += `
The settings of a participant name the variable or the file in which each server,
and txmgr exec, finds the secret: txmgr participant add --dsn-env BANK_DSN.
`
	return &cobra.Command{Use: "environment", Short: "The environment variables", Long: long}
}
