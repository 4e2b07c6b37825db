package node

import (
	"bytes"
	"context"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/node/backup"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// rollbackSpy records which branches are rolled back as from before a restore.
type rollbackSpy struct {
	*fakeParticipant
	mu   sync.Mutex
	said map[txn.ID]bool
}

func (s *rollbackSpy) Rollback(ctx context.Context, b participant.Branch) (participant.Result, error) {
	s.mu.Lock()
	s.said[b.TX] = b.BeforeRestore
	s.mu.Unlock()
	return s.fakeParticipant.Rollback(ctx, b)
}

// TestParticipantsLearnOfARestore: with each branch a participant learns whether it is from before the
// restore, also after a restart.
func TestParticipantsLearnOfARestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := &rollbackSpy{fakeParticipant: newFakeParticipant(), said: map[txn.ID]bool{}}
		desks := participantMap{"a": spy}
		n, err := tryOpen(t, t.TempDir(), with(desks))
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		before := beginAt(t, n, time.Hour, "a")
		var file bytes.Buffer
		if _, err := n.Admin().Backup(ctx, &file); err != nil {
			t.Fatal(err)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "restored")
		if _, err := backup.Restore(ctx, &file, dir); err != nil {
			t.Fatal(err)
		}
		if n, err = tryOpen(t, dir, with(desks)); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if err := n.Admin().ResumeRecovery(ctx, "ann", "compared"); err != nil {
			t.Fatal(err)
		}
		later := beginAt(t, n, time.Hour, "a")
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		n = open(t, dir, with(desks))
		pass(time.Minute)
		for _, id := range []txn.ID{before.ID, later.ID} {
			if _, err := n.Rollback(ctx, id, ""); err != nil {
				t.Fatal(err)
			}
			finished(t, n, id)
		}
		spy.mu.Lock()
		defer spy.mu.Unlock()
		if len(spy.said) != 2 || !spy.said[before.ID] || spy.said[later.ID] {
			t.Errorf("rolled back as from before the restore: %v", spy.said)
		}
	})
}
