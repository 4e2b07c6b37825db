package node

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/node/backup"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// backupScenario is a coordinator of two real ledgers and what became of it: a backup, and
// what happened after it was taken.
type backupScenario struct {
	t           *testing.T
	bank, stock *ledger.Ledger
	backup      []byte
	decided     txn.ID // to commit, before the backup; the application has finished nothing
	open        txn.ID // prepared before the backup
	lost        txn.ID // begun after the backup, decided to commit, and finished at the bank
}

func (y *backupScenario) conf(c *Config) {
	c.Drivers = map[string]participant.Driver{ledger.Kind: ledger.Driver}
	c.Interval = 0
}

// prepare adds 10 to an account of the transaction's own in both, and prepares.
func (y *backupScenario) prepare(n *Node, timeout time.Duration) txn.ID {
	y.t.Helper()
	ctx := y.t.Context()
	id := begin(y.t, n, timeout).ID
	tx, err := txn.Attach(ctx, n, id)
	if err == nil {
		err = errors.Join(y.bank.Add(ctx, tx, id.String(), 10), y.stock.Add(ctx, tx, id.String(), 10), tx.Prepare(ctx))
	}
	if err != nil {
		y.t.Fatal(err)
	}
	return id
}

func runUntilBackup(t *testing.T) *backupScenario {
	t.Helper()
	dir := t.TempDir()
	y := &backupScenario{t: t, bank: ledger.New("bank", filepath.Join(dir, "bank")), stock: ledger.New("stock", filepath.Join(dir, "stock"))}
	patient := func(c *Config) { c.Recovery.ClientGrace = 24 * time.Hour }
	n, err := tryOpen(t, filepath.Join(dir, "data"), slow, y.conf, patient)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for _, name := range []string{"bank", "stock"} {
		if err := n.Admin().AddParticipant(ctx, admin.Participant{Name: name, Kind: ledger.Kind, Settings: map[string]string{"path": filepath.Join(dir, name)}}, "", ""); err != nil {
			t.Fatal(err)
		}
	}
	y.decided, y.open = y.prepare(n, time.Hour), y.prepare(n, 10*time.Minute)
	commit := func(id txn.ID) {
		t.Helper()
		if o, err := n.Commit(ctx, id, txn.CommitRequest{ClientCompletes: true}); err != nil || o.State != txn.Committing {
			t.Fatal(o, err)
		}
	}
	commit(y.decided)
	var file bytes.Buffer
	if _, err := n.Admin().Backup(ctx, &file); err != nil {
		t.Fatal(err)
	}
	y.backup = file.Bytes()
	pass(2 * time.Minute)
	y.lost = y.prepare(n, time.Hour)
	commit(y.lost)
	at, err := ledger.Driver(ctx, admin.Participant{Name: "bank", Settings: map[string]string{"path": filepath.Join(dir, "bank")}}, n.clusterID())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := at.Commit(ctx, participant.Branch{TX: y.lost, ID: 1, XID: txn.XID(n.clusterID(), y.lost, 1)}); err != nil || r.Outcome != participant.Committed {
		t.Fatal(r, err)
	}
	if err := errors.Join(at.Close(), n.Close()); err != nil {
		t.Fatal(err)
	}
	return y
}

// prepared names the branches that are prepared at the ledgers.
func (y *backupScenario) prepared() map[string]string {
	y.t.Helper()
	found := make(map[string]string)
	for name, l := range map[string]*ledger.Ledger{"bank": y.bank, "stock": y.stock} {
		ps, err := l.Prepared(y.t.Context())
		if err != nil {
			y.t.Fatal(err)
		}
		for _, p := range ps {
			found[name+" "+p.XID] = name
		}
	}
	return found
}

// TestRestoreYesterdaysBackup: before an operator resumes recovery of the restored cluster no
// participant is called, and an operator can read; afterwards every transaction in the backup is
// completed, and the lost ones stay for an operator to resolve.
func TestRestoreYesterdaysBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := runUntilBackup(t)
		ctx := t.Context()
		dir := filepath.Join(t.TempDir(), "restored")
		if _, err := backup.Restore(ctx, bytes.NewReader(y.backup), dir); err != nil {
			t.Fatal(err)
		}
		before := y.prepared()
		if len(before) != 5 {
			t.Fatalf("prepared: %v", before)
		}
		eager := func(c *Config) { c.Recovery.ClientGrace, c.Recovery.SweepEvery = -1, 10*time.Second }
		n, err := tryOpen(t, dir, y.conf, eager)
		if err != nil {
			t.Fatal(err)
		}
		pass(30 * time.Minute) // many sweeps; the open one times out
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		n = open(t, dir, y.conf, eager) // a restart does not resume
		pass(30 * time.Minute)

		y.checkWhilePaused(n)
		if d := cmp.Diff(before, y.prepared()); d != "" {
			t.Fatalf("touched while held (-before +after):\n%s", d)
		}

		wantErr(t, "resume without a reason", n.Admin().ResumeRecovery(ctx, "ann", " "), txn.ErrInvalid, "reason")
		if err := n.Admin().ResumeRecovery(ctx, "ann", "compared with the ledgers"); err != nil {
			t.Fatal(err)
		}
		if i := finished(t, n, y.decided); i.State != txn.Committed || i.Heuristic != 0 {
			t.Errorf("decided: %+v", i)
		}
		if i := finished(t, n, y.open); i.State != txn.RolledBack || i.Cause != txn.CauseTimeout || i.Heuristic != 0 {
			t.Errorf("open: %+v", i)
		}
		pass(5 * time.Hour) // the lost one is left, however often it is scanned
		y.checkAfterResume(n)
		if err := n.Admin().ResumeRecovery(ctx, "bob", "again"); err != nil {
			t.Error("a repeat:", err)
		}
		records, err := n.Admin().Audit(ctx, admin.AuditFilter{})
		if last := records[len(records)-1]; err != nil || last.Action != "resume" || last.By != "ann" || last.Reason != "compared with the ledgers" {
			t.Errorf("%+v, %v", last, err)
		}
	})
}

func (y *backupScenario) checkWhilePaused(n *Node) {
	t, ctx := y.t, y.t.Context()
	_, err := n.Begin(ctx, txn.Options{})
	wantErr(t, "begin", err, txn.ErrUnavailable, "what the participants hold", "resume recovery")
	_, err = n.Admin().Scan(ctx, "bank", true)
	wantErr(t, "scan that acts", err, txn.ErrUnavailable, "backup")
	found, err := n.Admin().Scan(ctx, "", false)
	if err != nil || len(found) != 5 {
		t.Errorf("scan: %+v, %v", found, err)
	}
	for _, f := range found {
		if f.ID == y.lost && (f.Class != "leave" || !strings.Contains(f.Error, "restored from an old copy")) || f.Done {
			t.Errorf("scan: %+v", f)
		}
	}
	if i, err := n.Get(ctx, y.open); err != nil || i.State != txn.RollingBack || i.Cause != txn.CauseTimeout {
		t.Errorf("open: %+v, %v", i, err)
	}
	if ds, err := n.Admin().InDoubts(ctx); err != nil || len(ds) != 2 {
		t.Errorf("doubts: %+v, %v", ds, err)
	}
	if _, err := n.Admin().Status(ctx); err != nil {
		t.Error(err)
	}
	_ = n.Admin().Retry(ctx, y.decided)
	pass(time.Minute)
}

func (y *backupScenario) checkAfterResume(n *Node) {
	t, ctx := y.t, y.t.Context()
	stock := "stock " + txn.XID(n.clusterID(), y.lost, 2)
	if d := cmp.Diff(map[string]string{stock: "stock"}, y.prepared()); d != "" {
		t.Errorf("prepared afterwards (-want +got):\n%s", d)
	}
	found, err := n.Admin().Scan(ctx, "", true)
	if err != nil || len(found) != 1 || found[0].ID != y.lost || found[0].Class != "leave" || !strings.Contains(found[0].Error, "restored from an old copy") {
		t.Errorf("scan: %+v, %v", found, err)
	}
	for _, l := range []*ledger.Ledger{y.bank, y.stock} {
		b, err := l.Balances(ctx)
		if err != nil || b[y.decided.String()] != 10 || b[y.open.String()] != 0 {
			t.Errorf("balances %v, %v", b, err)
		}
	}
	// What begins now is driven and swept as ever.
	id := y.prepare(n, time.Second)
	if i := finished(t, n, id); i.State != txn.RolledBack || len(y.prepared()) != 1 {
		t.Errorf("%+v; prepared: %v", i, y.prepared())
	}
}

// TestResumeFeedsRecovery: completing transactions are driven at once, without a sweep that
// finds them.
func TestResumeFeedsRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := runUntilBackup(t)
		dir := t.TempDir()
		if _, err := backup.Restore(t.Context(), bytes.NewReader(y.backup), dir); err != nil {
			t.Fatal(err)
		}
		n := open(t, dir, y.conf, func(c *Config) { c.Recovery.ClientGrace, c.Recovery.SweepEvery = -1, -1 })
		pass(time.Minute)
		if err := n.Admin().ResumeRecovery(t.Context(), "ann", "compared"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if i, err := n.Wait(ctx, y.decided, txn.UntilFinished); err != nil || i.State != txn.Committed {
			t.Errorf("%+v, %v", i, err)
		}
	})
}

// TestSlowTransactionOfTheLostTime: it was begun longer ago than the log remembers, and prepared a
// moment ago. In a log that has lost nothing that would be a late prepare of a finished
// transaction; here it may have been decided to commit.
func TestSlowTransactionOfTheLostTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		desks := participantMap{"a": newFakeParticipant()}
		short := func(c *Config) {
			c.Interval, c.Retention, c.Recovery.SweepEvery = 100*time.Millisecond, 10*time.Minute, time.Second
		}
		n, err := tryOpen(t, t.TempDir(), short, with(desks))
		if err != nil {
			t.Fatal(err)
		}
		var file bytes.Buffer
		if _, err := n.Admin().Backup(t.Context(), &file); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		slow := beginAt(t, n, 3*time.Hour, "a")
		pass(time.Hour)
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		desks["a"].(*fakeParticipant).prepare(slow.Branches[0].XID)
		dir := t.TempDir()
		if _, err := backup.Restore(t.Context(), &file, dir); err != nil {
			t.Fatal(err)
		}
		n = open(t, dir, short, with(desks))
		if err := n.Admin().ResumeRecovery(t.Context(), "ann", "compared"); err != nil {
			t.Fatal(err)
		}
		pass(5 * time.Hour)
		if left, err := desks["a"].Prepared(t.Context(), ""); err != nil || len(left) != 1 {
			t.Errorf("%+v, %v", left, err)
		}
	})
}
