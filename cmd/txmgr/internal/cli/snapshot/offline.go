package snapshot

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cell"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/node/backup"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

func inspectCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "inspect FILE",
		Short: "Verify a backup file, and show its contents",
		Long: `Read a file of txmgr snapshot save completely, verify it, and show its contents: the
cluster, the time, the number of transactions in each state, and the participants at which
branches may still be prepared. No server is asked.`,
		Example:           "  txmgr snapshot inspect /backup/txmgr.snapshot\n  txmgr snapshot inspect /backup/txmgr.snapshot -o json",
		Args:              cli.ArgCount(1, 1, "FILE"),
		ValidArgsFunction: cli.CompleteFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := openBackup(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = f.Close() }() // read only
			b, c, err := backup.Inspect(bufio.NewReaderSize(contextReader{cmd.Context(), f}, 1<<20))
			if err != nil {
				return backupFailure(args[0], err)
			}
			return printContents(a, args[0], b, c)
		},
	}
}

// contextReader is a file whose reading ends with a context.
type contextReader struct {
	ctx  context.Context
	file io.Reader
}

// Read implements [io.Reader].
func (i contextReader) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.file.Read(p)
}

func openBackup(name string) (*os.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, &output.Failure{Code: txn.CodeUsage, What: "cannot read " + name, Cause: output.WithoutPath(err), Err: err}
	}
	return f, nil
}

func backupFailure(file string, err error) error {
	f := &output.Failure{Code: txn.CodeError, What: "cannot use " + file, Cause: err.Error(), Err: err}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, backup.ErrDamaged):
		f.Hint = "use another backup; txmgr snapshot save makes one"
	case errors.Is(err, txn.ErrConflict):
		f.Code, f.Hint = txn.CodeConflict, "give a directory that is empty, or does not exist yet"
	case errors.Is(err, txn.ErrInvalid):
		f.Code, f.Hint = txn.CodeUsage, "use the release that made the file, or a newer one"
	}
	return f
}

func printContents(a *cli.App, file string, b admin.Backup, c backup.Contents) error {
	t := backupTable(file, b)
	t.Add("release", c.Release)
	t.Add("recovery paused", yesNo(c.RecoveryPaused))
	t.Add("transactions", fmt.Sprintf("%d, of them %d with a heuristic outcome", c.Transactions, c.Heuristics))
	for s := txn.Active; s <= txn.RolledBack; s++ {
		if n := c.States[s]; n > 0 {
			t.Add("  "+s.String(), cell.Int(n))
		}
	}
	t.Add("nodes, tokens, audit", fmt.Sprintf("%d, %d, %d", c.Members, c.Tokens, c.Audit))
	p := output.Table{Columns: output.Columns("PARTICIPANT", "KIND", "UNFINISHED BRANCHES")}
	for _, x := range c.Participants {
		p.Add(x.Name, x.Kind, cell.Int(x.Branches))
	}
	if c.Participants == nil {
		c.Participants = []backup.Participant{}
	}
	value := struct {
		File string `json:"file"`
		admin.Backup
		Contents backup.Contents `json:"contents"`
	}{file, b, c}
	tables := []output.Table{t}
	if len(c.Participants) > 0 {
		tables = append(tables, p)
	}
	return a.Print.Print(output.Document{Value: value, IDs: []string{file}, Tables: tables})
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func restoreCommand(a *cli.App) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "restore FILE --data-dir DIR",
		Short: "Restore the data directory of a new cluster from a file",
		Long: `Create a data directory from a file of txmgr snapshot save, for the first node of a new
cluster; the other nodes join it with empty directories. No server is asked, and none may
run on the directory, which has to be empty.

Decisions that were made after the backup are not in it, though databases have carried
them out. Therefore recovery is paused in the new cluster, which has the next incarnation:
it completes no branch and begins no transaction until an operator has compared it with
the participants and runs txmgr recover resume. The remaining nodes of the old cluster
must never run again.`,
		Example: `  txmgr snapshot restore /backup/txmgr.snapshot --data-dir /var/lib/txmgr
  txmgr server --data-dir /var/lib/txmgr
  txmgr recover scan; txmgr indoubt list
  txmgr recover resume --reason "compared with the databases, ticket 812"`,
		Args:              cli.ArgCount(1, 1, "FILE"),
		ValidArgsFunction: cli.CompleteFiles,
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "data directory to create; required")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if dir == "" {
			return output.Usage("--data-dir names the directory to create", "no data directory given")
		}
		f, err := openBackup(args[0])
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // read only
		b, err := backup.Restore(cmd.Context(), bufio.NewReaderSize(f, 1<<20), dir)
		if err != nil {
			return backupFailure(args[0], err)
		}
		if abs, err := filepath.Abs(dir); err == nil {
			dir = abs
		}
		a.Print.Note("recovery is paused until: txmgr recover resume --reason TEXT; the remaining nodes of the old cluster must never run again")
		t := backupTable(args[0], b)
		t.Add("data directory", dir)
		value := struct {
			File    string `json:"file"`
			DataDir string `json:"data_dir"`
			admin.Backup
		}{args[0], dir, b}
		return a.Print.Print(output.Document{Value: value, IDs: []string{dir}, Tables: []output.Table{t}})
	}
	return cmd
}
