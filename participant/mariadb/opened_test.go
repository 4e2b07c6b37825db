package mariadb

import (
	"context"
	"testing"

	"github.com/txmgr/txmgr/participant/participanttest"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

func TestMarkerRowWhenOpened(t *testing.T) {
	a := newAppointing(t)
	shop := newBank(t)
	shop.db = New("shop", shop.pool)
	check(t, a.Admin().AddParticipant(t.Context(), admin.Participant{Name: "shop", Kind: Kind, Settings: map[string]string{"dsn": shop.dsn}}, "", ""))
	opener := func(b *bank) participanttest.Opener {
		r := b.opened(t, nil)
		return participanttest.Opener{
			Participant: b.db.name,
			Open: func(ctx context.Context, _ *txn.Tx, enlist txn.EnlistFunc) (txn.Resource, error) {
				return b.db.begin(ctx, enlist)
			},
			RowIsHeld: func(ctx context.Context, xid string) (bool, error) {
				_, held, err := r.markers.WriteBarrier(ctx, r.db, xid)
				return held, err
			},
		}
	}
	participanttest.RowWhenOpened(t, a.Node, opener(a.bank), opener(shop))
}
