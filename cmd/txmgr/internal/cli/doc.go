// Package cli is what the commands of txmgr share: [App], the run of one command line, with its
// streams, the flags that all commands have, the connection to the coordinator and the printer.
//
// A command is a function that returns a *cobra.Command, in a file of its own, in the package of its
// subject: cli/transaction, cli/participant and so on. Its RunE function is made by [App.ClientCmd],
// which gives it a client, or by one of the variants of it:
//
//	func statusCommand(a *cli.App) *cobra.Command {
//		return &cobra.Command{
//			Use:  "status",
//			Args: cli.NoArgs(),
//			RunE: a.ShortCmd(func(ctx context.Context, c *client.Client, _ []string) error {
//				s, err := c.Admin().Status(ctx)
//				if err != nil {
//					return err
//				}
//				return a.Print.Print(output.Document{Value: s})
//			}),
//		}
//	}
//
// It prints by [App.Print], and by nothing else, so that every command supports every output format.
//
// # Concurrency
//
// An [App] is for one command line and one goroutine, except that notes may be printed by several.
//
// # What it does not do
//
// It contains no command, and does not know which there are: cli/root assembles them.
package cli
