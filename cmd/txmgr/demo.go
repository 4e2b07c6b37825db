package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/demo"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

func demoCommand(a *app) *cobra.Command {
	var databases string
	var nodes int
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show in half a minute what txmgr does: the guided tour",
		Long: `Show what txmgr does, in six scenes: a transfer over two databases and a web service
commits; one of them says no; an application dies with locks in its hands; the node
that leads is killed (kill -9) in the middle of a commit, while another transaction is
open; a hundred transfers run while one leader after the other is killed; somebody ends
a branch by hand, and it is found out.

The coordinator is three processes, which stand in for one another. With --nodes 1 it
is one, which is killed and started again; that takes a third of the time.

After each scene the balances are read from the databases and compared with what
must be there. The exit code is 0 only if everything held. Whatever was started is
stopped and removed.

--databases says what it is shown on:
  auto        a private PostgreSQL and a private MariaDB; a ledger for what is missing
  embedded    two embedded ledgers, which need nothing to be installed
  scratch     a private PostgreSQL and a private MariaDB, both of which must be there
  A=DSN,B=DSN your own databases; tables txmgr_demo... are made and dropped`,
		Example: `  txmgr demo
  txmgr demo --databases embedded --nodes 1
  txmgr demo --databases 'bank=postgres://localhost/a,savings=me@tcp(localhost:3306)/b'`,
		Args:              noArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&databases, "databases", "auto", "auto, embedded, scratch or A=DSN,B=DSN")
	cmd.Flags().IntVar(&nodes, "nodes", 3, "how many processes the coordinator is: 1 or 3")
	_ = cmd.RegisterFlagCompletionFunc("nodes", cobra.FixedCompletions([]string{"1", "3"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		signal.Ignore(syscall.SIGPIPE) // a reader that closes the pipe must not stop the cleanup
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
		story := a.demoReporter()
		if story.Out != nil {
			_, _ = fmt.Fprintln(story.Out, "txmgr demo: two databases and a service, one transaction, everything that can go wrong") // an error of standard output has no recipient
		}
		ctx, stop := withHangup(cmd.Context())
		defer stop()
		s, err := demo.Run(ctx, demo.Config{Program: program, Nodes: nodes, Databases: databases, Environ: os.Environ(), Reporter: story})
		if err != nil {
			return err
		}
		return a.printDemoEnd(s)
	}
	return cmd
}

// demoReporter reports to standard output, unless the output format is for programs: then standard
// output is for the summary.
func (a *app) demoReporter() demo.Reporter {
	s := demo.Reporter{Out: a.out, Color: a.print.ColorOut}
	if a.print.Format.Structured() || a.print.Format == output.IDFormat {
		s.Out, s.Color = a.err, a.print.ColorErr
		switch {
		case a.quiet:
			s.Out = nil
		case a.print.Format.Structured():
			s.Out, s.Color = logWriter{slog.New(slog.NewJSONHandler(a.err, nil))}, false
		}
	}
	s.Progress = func(what string, total int) (step, hide func()) {
		g := a.print.Progress(what, total, time.Now())
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

func (a *app) printDemoEnd(s demo.Summary) error {
	if a.print.Format.Structured() {
		if err := a.print.Print(output.Document{Value: s}); err != nil {
			return err
		}
	} else if s.OK && a.print.Format != output.IDFormat {
		_, _ = fmt.Fprintf(a.out, demoEnd, s.Kills, time.Duration(s.Took).Round(100*time.Millisecond)) // an error of standard output has no recipient
	}
	if s.OK {
		return nil
	}
	f := &output.Failure{Code: txn.CodeError, What: "the demo found something that must not be"}
	for _, scene := range s.Scenarios {
		for _, c := range scene.Checks {
			if !c.OK {
				f.Cause, f.State = scene.Title+": "+c.What, c.Found
			}
		}
	}
	f.Next = "this is a fault of txmgr: please report it with the output above"
	return f
}

const demoEnd = `
  %d times killed, nothing lost, nothing left behind, in %v. Try next:

     txmgr dev                          # a throw-away server, with databases to play on
     txmgr help states                  # what a transaction goes through
     txmgr demo --databases scratch     # the same on a real PostgreSQL and a real MariaDB
`
