package server

import (
	"context"
	"fmt"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// timeoutService is the TimeoutService.
type timeoutService struct{ c admin.Calls }

func (t *timeoutService) Groups(ctx context.Context, r *txmgrv1.GroupsRequest) (*txmgrv1.GroupsResponse, error) {
	if r.GetLimit() < 0 {
		return nil, fmt.Errorf("%w: limit %d is negative", txn.ErrInvalid, r.GetLimit())
	}
	g, err := t.c.DeadlineGroups(ctx, admin.DeadlineGroupRange{From: r.GetFrom(), Limit: int(r.GetLimit())})
	return wire.FromDeadlineGroups(g), err
}
