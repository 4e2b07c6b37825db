package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/txn"
)

// TestRemovedLeader: a leader is disconnected, the others elect another one and remove it. When it
// is connected again, and when it is restarted, it leads no node, receives no entry and completes
// no transaction; the branches of transactions end as the log of the others says. With an empty
// directory the same machine is a new node.
func TestRemovedLeader(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, "--sweep-interval", "1s")
	b.form()
	m := newMoney(b, 2*transferWorkers)
	tell := newTransferClients(m, b.dial(waitTimeout), &abandonedTxs{t: t, c: b.dial(waitTimeout)})
	ctx, stop := context.WithCancel(t.Context())
	var telling sync.WaitGroup
	telling.Go(func() { tell.work(ctx, 2) })
	removed, _ := b.leader()
	id := b.id(removed)
	b.must(b.net.setLink(removed.n, false))
	b.eventually(waitTimeout, "it is removed", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		err := b.m.Admin().Remove(ctx, id, "the test", "its machine is gone")
		if errors.Is(err, txn.ErrNotFound) {
			return nil // an earlier attempt has done it
		}
		return err
	})
	b.must(b.net.setLink(removed.n, true))
	b.checkRemoved(removed, id)
	removed.Kill()
	b.must(removed.Start(b.t.Context()))
	b.checkRemoved(removed, id)
	removed.Kill()
	b.must(os.RemoveAll(removed.dir))
	b.must(removed.Start(b.t.Context()))
	b.awaitHealthy()
	if now := b.id(removed); now == id {
		t.Errorf("a node with an empty directory has the id of one that was removed: %s", id)
	}
	stop()
	telling.Wait()
	m.awaitIdle()
	tell.checkConsistency()
	if outcomes := tell.countOutcomes(""); outcomes[outcomeOK] < 20 {
		t.Errorf("too little has happened to show anything: %v", outcomes)
	}
}

// checkRemoved checks for some seconds that a removed node does nothing, while the others are a
// cluster of two.
func (b *testCluster) checkRemoved(n *node, id string) {
	b.t.Helper()
	b.eventually(waitTimeout, "the others are a cluster", func(ctx context.Context) error { return b.checkFormed(ctx, size-1) })
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); rig.Sleep(b.t.Context(), 200*time.Millisecond) {
		all := b.statuses(b.t.Context())
		for other, s := range all {
			if other == n {
				continue
			}
			for _, m := range s.Members {
				if m.ID == id {
					b.t.Fatalf("%s, which was removed, is a member again: %+v", id, m)
				}
			}
			if s.LeaderID == id {
				b.t.Fatalf("%s follows %s, which was removed", other.Name, id)
			}
		}
		others, err := leading(all)
		if s, answers := all[n]; answers && err == nil && s.Leader && s.Term >= others.Term {
			b.t.Fatalf("%s, which was removed, leads: %+v", id, s)
		}
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Second)
	defer cancel()
	lost := rig.NewID()
	if _, err := n.m.Begin(ctx, txn.Options{ID: lost, Timeout: time.Minute}); err == nil {
		if _, err := b.m.Get(b.t.Context(), lost); err != nil {
			b.t.Errorf("%s, which was removed, has begun %v, of which the others say: %v", id, lost, err)
		}
	}
}

// TestRestoredCluster: all nodes are lost. A new cluster is restored from a backup: its recovery is
// paused until it is resumed, and then ends what was open in the backup.
func TestRestoredCluster(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, "--sweep-interval", "1s")
	b.form()
	m := newMoney(b, 2*transferWorkers)
	tell := newTransferClients(m, b.dial(waitTimeout), &abandonedTxs{t: t, c: b.dial(waitTimeout)})
	b.makeTransfers(tell)
	open := &transfer{id: rig.NewID(), kind: kindAbandon, from: 1, to: 2, amount: 7, timeout: 5 * time.Second}
	tell.all = append(tell.all, open)
	_, err := b.m.Begin(t.Context(), txn.Options{ID: open.id, Timeout: open.timeout})
	b.must(err)
	_, err = tell.prepareManually(t.Context(), open.id, entry{inBank, open.from, -open.amount})
	b.must(err)
	open.outcome = outcomeRolledBack // in the end
	file := filepath.Join(b.dir, "backup")
	f, err := os.Create(file)
	b.must(err)
	backup, err := b.m.Admin().Backup(t.Context(), f)
	b.must(errors.Join(err, f.Close()))
	for _, n := range b.nodes {
		n.Kill()
		b.must(os.RemoveAll(n.dir))
	}
	b.runProgram(program, "snapshot", "restore", file, "--data-dir", b.nodes[0].dir)
	for _, n := range b.nodes {
		b.must(n.Start(b.t.Context()))
	}
	b.awaitHealthy()
	s, err := b.m.Admin().Status(t.Context())
	b.must(err)
	if s.Cluster != m.tag || s.Incarnation != backup.Incarnation+1 || !s.RecoveryPaused {
		t.Errorf("restored: cluster %s, incarnation %d, held: %v; want %s, %d, true", s.Cluster, s.Incarnation, s.RecoveryPaused, m.tag, backup.Incarnation+1)
	}
	refused := rig.NewID()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	if _, err := b.m.Begin(ctx, txn.Options{ID: refused}); err == nil {
		t.Error("a held cluster begins transactions")
	}
	cancel()
	for end := time.Now().Add(open.timeout + 2*time.Second); time.Now().Before(end); rig.Sleep(t.Context(), 200*time.Millisecond) {
		if left, err := m.prepared(t.Context()); err != nil || len(left) != 1 {
			t.Fatalf("a held cluster has touched what was prepared: %q, %v", left, err)
		}
	}
	b.must(b.m.Admin().ResumeRecovery(t.Context(), "the test", "compared with the books"))
	b.eventually(waitTimeout, "what was open has ended", func(ctx context.Context) error {
		info, err := b.m.Get(ctx, open.id)
		if err == nil && info.State != txn.RolledBack {
			err = fmt.Errorf("it is %v", info.State)
		}
		return err
	})
	b.makeTransfers(tell)
	m.awaitIdle()
	tell.checkConsistency()
}

// makeTransfers makes transfers until twenty are committed.
func (b *testCluster) makeTransfers(tell *transferClients) {
	b.t.Helper()
	from := tell.countOutcomes("")[outcomeOK]
	ctx, stop := context.WithCancel(b.t.Context())
	var telling sync.WaitGroup
	telling.Go(func() { tell.work(ctx, 4) })
	b.eventually(waitTimeout, "money has moved", func(context.Context) error {
		if n := tell.countOutcomes("")[outcomeOK] - from; n < 20 {
			return fmt.Errorf("%d transfers", n)
		}
		return nil
	})
	stop()
	telling.Wait()
}
