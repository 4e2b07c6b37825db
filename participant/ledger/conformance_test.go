package ledger

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/participanttest"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

func TestConformance(t *testing.T) {
	l, path := newLedger(t)
	participanttest.Run(t, participanttest.Harness{
		Cluster: "test",
		Open:    func(t *testing.T) participant.Participant { return openParticipant(t, path) },
		Work: func(t *testing.T, xid, key string, value int64) (txn.Resource, string) {
			var info string
			s, err := enlistBranch(t.Context(), newStore(path), func(_ context.Context, session string, _ []byte) (txn.Branch, error) {
				info = session
				return txn.Branch{ID: 1, XID: xid}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.do(t.Context(), statement{"set", []string{key}, value}); err != nil {
				t.Fatal(err)
			}
			return s, info
		},
		Write: func(ctx context.Context, key string, value int64) error {
			_, err := l.Local(ctx, fmt.Sprintf("set %s %d", key, value))
			return err
		},
		Read: func(t *testing.T, key string) int64 {
			all, err := New("other", path).Balances(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return all[key]
		},
		FinishManually: func(t *testing.T, xid string, toCommit bool) {
			how, want := rollback, participant.RolledBack
			if toCommit {
				how, want = commit, participant.Committed
			}
			if got, err := newStore(path).finish(t.Context(), xid, how); err != nil || got != want {
				t.Fatalf("%v, %v", got, err)
			}
		},
		Restart: func(*testing.T) {}, // nothing runs between two operations; see TestKilledProcess
	})
}

// newLedger makes a ledger that is verified when the test is over.
func newLedger(t testing.TB) (*Ledger, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	t.Cleanup(func() {
		if err := New("verify", path).Verify(context.Background()); err != nil {
			t.Errorf("verify: %v", err)
		}
	})
	return New("ledger", path), path
}

func openParticipant(t testing.TB, path string) participant.Participant {
	t.Helper()
	p, err := Driver(t.Context(), admin.Participant{Name: "ledger", Kind: Kind, Settings: map[string]string{"path": path}}, "test")
	if err != nil {
		t.Fatal(err)
	}
	return p
}
