package postgres

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/participanttest"
	"github.com/txmgr/txmgr/participant/postgres/internal/markertable"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

func TestMarkerRowWhenOpened(t *testing.T) {
	n, err := node.Open(t.Context(), node.Config{
		DataDir: t.TempDir(), Interval: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Drivers: map[string]participant.Driver{Kind: Driver},
	})
	check(t, err)
	t.Cleanup(func() { check(t, n.Close()) })
	opener := func(name string) participanttest.Opener {
		bank := newBank(t).withMarkers(t)
		db := New(name, bank.pool)
		check(t, n.Admin().AddParticipant(t.Context(), admin.Participant{Name: name, Kind: Kind, Settings: map[string]string{"dsn": bank.dsn}}, "", ""))
		r := bank.opened(t, nil).(*resourceManager)
		return participanttest.Opener{
			Participant: name,
			Open: func(ctx context.Context, tx *txn.Tx, enlist txn.EnlistFunc) (txn.Resource, error) {
				xid, _ := tx.BranchName(name)
				return db.begin(ctx, xid, tx.Timeout(), enlist)
			},
			RowIsHeld: func(ctx context.Context, xid string) (bool, error) {
				_, err := r.markers.WriteBarrier(ctx, r.pool, xid)
				if errors.Is(err, markertable.ErrLocked) {
					return true, nil
				}
				return false, err
			},
		}
	}
	participanttest.RowWhenOpened(t, n, opener("bank"), opener("shop"))
}
