package snapshot

import (
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cell"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Command returns txmgr snapshot.
func Command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Save the whole state to a file, and restore a cluster from it",
		Long: `Save the whole state of a cluster to a file, inspect such a file, and restore a cluster
from it. A backup is needed when more than half of the nodes are lost permanently; before
that the other nodes continue, and a new node joins.`,
	}
	cli.GroupCommand(cmd)
	cmd.AddCommand(saveCommand(a), inspectCommand(a), restoreCommand(a))
	return cmd
}

func saveCommand(a *cli.App) *cobra.Command {
	var force, stale bool
	cmd := &cobra.Command{
		Use:   "save FILE",
		Short: "Save the whole state to a file",
		Long: `Save the whole state to a file, while the cluster runs. The file appears when it is
complete, and not before. It contains no secrets of databases and only hashes of tokens,
but the names and labels of all transactions.

If more than half of the nodes are lost permanently, --stale saves the state of one that
is left, which may be newer than the last backup, and may lack what the others decided.`,
		Example: `  txmgr snapshot save /backup/txmgr-$(date +%F).snapshot
  txmgr snapshot save left.snapshot --stale --address http://10.0.0.3:7460`,
		Args:              cli.ArgCount(1, 1, "FILE"),
		ValidArgsFunction: cli.CompleteFiles,
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing file")
	cmd.Flags().BoolVar(&stale, "stale", false, "save the state of the node that is asked, which may be out of date")
	cmd.RunE = a.ClientCmd(func(ctx context.Context, c *client.Client, args []string) error {
		if args[0] == "" {
			return output.Usage("name the file to write", "FILE is empty")
		}
		switch info, err := os.Lstat(args[0]); {
		case err != nil:
		case !info.Mode().IsRegular():
			return &output.Failure{Code: txn.CodeConflict, What: args[0] + " is not a regular file, and is not replaced", Hint: "give another name"}
		case !force:
			return &output.Failure{Code: txn.CodeConflict, What: args[0] + " exists already", Hint: "--force replaces it"}
		}
		if stale {
			ctx = txn.AllowStale(ctx)
		}
		b, err := save(ctx, a, c, args[0])
		if err != nil {
			return err
		}
		return printBackup(a, args[0], b)
	})
	return cmd
}

// save writes the copy beside its final name and renames it when it is complete and synced.
func save(ctx context.Context, a *cli.App, c *client.Client, file string) (b admin.Backup, err error) {
	w, err := renameio.NewPendingFile(file, renameio.WithPermissions(0o600))
	if err != nil {
		return b, &output.Failure{Code: txn.CodeError, What: "cannot write " + file, Cause: output.WithoutPath(err), Err: err}
	}
	defer func() { err = errors.Join(err, w.Cleanup()) }()
	counted := &countingWriter{to: w}
	stop := reportProgress(a, counted)
	b, err = c.Admin().Backup(ctx, counted)
	stop()
	if err != nil {
		return b, err
	}
	return b, w.CloseAtomicallyReplace()
}

// countingWriter counts the bytes written to it.
type countingWriter struct {
	to io.Writer
	n  atomic.Int64
}

// Write implements [io.Writer].
func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// progressInterval is the interval between two progress reports of a copy.
const progressInterval = 10 * time.Second

// reportProgress reports the progress of a copy periodically, until it is stopped.
func reportProgress(a *cli.App, c *countingWriter) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		again := time.NewTicker(progressInterval)
		defer again.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-again.C:
				a.Print.Note("%d MiB", c.n.Load()>>20)
			}
		}
	}()
	return func() {
		cancel()
		<-over
	}
}

func printBackup(a *cli.App, file string, b admin.Backup) error {
	value := struct {
		File string `json:"file"`
		admin.Backup
	}{file, b}
	return a.Print.Print(output.Document{Value: value, IDs: []string{file}, Tables: []output.Table{backupTable(file, b)}})
}

func backupTable(file string, b admin.Backup) output.Table {
	t := output.Table{Columns: []output.Column{{Name: "FIELD"}, {Name: "VALUE"}}}
	t.Add("file", file)
	t.Add("cluster", b.Cluster)
	t.Add("incarnation", cell.Int(b.Incarnation))
	t.Add("taken", cell.Time(b.Taken))
	t.Add("index, term", cell.Int(b.Index)+", "+cell.Int(b.Term))
	t.Add("tick", cell.Int(b.Tick))
	t.Add("bytes", cell.Int(b.Bytes))
	t.Add("sha256", b.SHA256)
	return t
}
