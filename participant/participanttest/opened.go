package participanttest

import (
	"context"
	"testing"

	"github.com/txmgr/txmgr/txn"
)

// Opener is one database of a participant whose branches write a marker row.
type Opener struct {
	Participant string
	// Open opens a resource, as the function that is passed to [txn.Join].
	Open func(ctx context.Context, tx *txn.Tx, enlist txn.EnlistFunc) (txn.Resource, error)
	// RowIsHeld reports whether a transaction that has not ended holds a branch's marker row. Unless
	// it does, it may write a barrier.
	RowIsHeld func(ctx context.Context, xid string) (bool, error)
}

// RowWhenOpened checks that the marker row of every branch is written, and not committed, when its
// resource has been opened: the client sends an enlistment from then on, and the coordinator takes
// a missing row of a branch that it knows for a proof. The databases get a branch each, in transactions
// that name their branches themselves and in others. m implements [txn.Namer].
func RowWhenOpened(t *testing.T, m txn.Namer, openers ...Opener) {
	for name, c := range map[string]struct {
		m     txn.Manager
		named bool
	}{
		"named by the transaction": {m, true},
		"named at the enlistment":  {struct{ txn.Manager }{m}, false},
	} {
		t.Run(name, func(t *testing.T) {
			tx, err := txn.Start(t.Context(), c.m, txn.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range openers {
				if _, named := tx.BranchName(o.Participant); named != c.named {
					t.Errorf("%s: it is known before the enlistment: %v, want %v", o.Participant, named, c.named)
				}
				o.join(t, tx)
			}
			if err := tx.Rollback(t.Context(), "the test has seen enough"); err != nil {
				t.Error(err)
			}
		})
	}
}

// join opens the resource of a branch, and looks for its row at that moment.
func (o Opener) join(t *testing.T, tx *txn.Tx) {
	t.Helper()
	_, err := txn.Join(t.Context(), tx, o.Participant, func(ctx context.Context, enlist txn.EnlistFunc) (txn.Resource, error) {
		var xid string
		s, err := o.Open(ctx, tx, func(ctx context.Context, session string, payload []byte) (txn.Branch, error) {
			b, err := enlist(ctx, session, payload)
			xid = b.XID
			return b, err
		})
		if err != nil {
			return nil, err
		}
		if held, err := o.RowIsHeld(ctx, xid); err != nil || !held {
			t.Errorf("%s: the row of %s is held: %v, %v", o.Participant, xid, held, err)
		}
		return s, nil
	})
	if err != nil {
		t.Error(err)
	}
}
