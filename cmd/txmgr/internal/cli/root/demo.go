package root

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/demo"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

func demoCommand(a *cli.App) *cobra.Command {
	var databases string
	var nodes int
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a demo of txmgr (half a minute)",
		Long: `Run a demo of txmgr, in six scenarios: a transfer over two databases and a web service
commits; a participant votes no; an application dies while its branches are prepared; the
leader is killed (kill -9) during a commit, while another transaction is undecided; a
hundred transfers run while one leader after the other is killed; an operator ends a
branch manually, and the heuristic outcome is reported.

The coordinator is a cluster of three processes. With --nodes 1 it is one process, which
is killed and started again; that takes a third of the time.

After each scenario the balances are read from the databases and compared with what they
must be. The exit code is 0 only if every check passed. Everything that was started is
stopped and removed.

--databases chooses the databases of the demo:
  auto        a private PostgreSQL and a private MariaDB; a ledger for what is missing
  embedded    two embedded ledgers, which need no installation
  scratch     a private PostgreSQL and a private MariaDB, both of which must be installed
  A=DSN,B=DSN your own databases; tables txmgr_demo... are created and dropped`,
		Example: `  txmgr demo
  txmgr demo --databases embedded --nodes 1
  txmgr demo --databases 'bank=postgres://localhost/a,savings=me@tcp(localhost:3306)/b'`,
		Args:              cli.NoArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&databases, "databases", "auto", "databases of the demo: auto, embedded, scratch or A=DSN,B=DSN")
	cmd.Flags().IntVar(&nodes, "nodes", 3, "number of processes of the coordinator: 1 or 3")
	_ = cmd.RegisterFlagCompletionFunc("nodes", cobra.FixedCompletions([]string{"1", "3"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		signal.Ignore(syscall.SIGPIPE) // a reader that closes the pipe must not stop the cleanup
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
		trace := demoReporter(a)
		if trace.Out != nil {
			_, _ = fmt.Fprintln(trace.Out, "txmgr demo: transactions over two databases and a web service, with failures") // an error of standard output has no recipient
		}
		ctx, stop := cli.WithHangup(cmd.Context())
		defer stop()
		s, err := demo.Run(ctx, demo.Config{Program: program, Nodes: nodes, Databases: databases, Environ: os.Environ(), Reporter: trace})
		if err != nil {
			return err
		}
		return printDemoEnd(a, s)
	}
	return cmd
}

// demoReporter reports to standard output, unless the output format is for programs: then standard
// output is for the summary.
func demoReporter(a *cli.App) demo.Reporter {
	s := demo.Reporter{Out: a.Out, Color: a.Print.ColorOut}
	if a.Print.Format.Structured() || a.Print.Format == output.IDFormat {
		s.Out, s.Color = a.Err, a.Print.ColorErr
		switch {
		case a.Quiet:
			s.Out = nil
		case a.Print.Format.Structured():
			s.Out, s.Color = logWriter{slog.New(slog.NewJSONHandler(a.Err, nil))}, false
		}
	}
	s.Progress = func(what string, total int) (step, hide func()) {
		g := a.Print.Progress(what, total, time.Now())
		return func() { g.Step(time.Now()) }, g.Hide
	}
	return s
}

// logWriter writes lines to a log.
type logWriter struct{ log *slog.Logger }

// Write implements [io.Writer].
func (l logWriter) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		if line = strings.TrimSpace(line); line != "" {
			l.log.Info(line)
		}
	}
	return len(p), nil
}

func printDemoEnd(a *cli.App, s demo.Summary) error {
	if a.Print.Format.Structured() {
		if err := a.Print.Print(output.Document{Value: s}); err != nil {
			return err
		}
	} else if s.OK && a.Print.Format != output.IDFormat {
		_, _ = fmt.Fprintf(a.Out, demoEnd, s.Kills, time.Duration(s.Took).Round(100*time.Millisecond)) // an error of standard output has no recipient
	}
	if s.OK {
		return nil
	}
	f := &output.Failure{Code: txn.CodeError, What: "a check of the demo failed"}
	for _, scene := range s.Scenarios {
		for _, c := range scene.Checks {
			if !c.OK {
				f.Cause, f.State = scene.Title+": "+c.What, c.Found
			}
		}
	}
	f.Hint = "this is a bug in txmgr: please report it with the output above"
	return f
}

const demoEnd = `
  %d processes killed, no transaction lost, no branch left prepared, in %v. Next:

     txmgr dev                          # run a temporary server with databases to try the commands on
     txmgr help states                  # the states of a transaction
     txmgr demo --databases scratch     # the same with PostgreSQL and MariaDB
`
