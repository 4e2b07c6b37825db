package query

import (
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// DeadlineGroups returns the groups of the survival index that expire at the range's tick or later.
func (r Reader) DeadlineGroups(part admin.DeadlineGroupRange) admin.DeadlineGroups {
	limit := min(part.Limit, admin.MaxDeadlineGroups)
	if limit <= 0 {
		limit = admin.DefaultDeadlineGroups
	}
	tick, _ := r.Clock.Now()
	g := admin.DeadlineGroups{Tick: uint64(tick), Interval: txn.Duration(r.bootstrap().Interval), Groups: []admin.DeadlineGroup{}}
	r.View(func(m *machine.Machine) {
		for end, count := range m.DeadlineGroups(survival.Tick(part.From)) {
			if len(g.Groups) == limit {
				g.Next = uint64(end)
				return
			}
			g.Groups = append(g.Groups, admin.DeadlineGroup{ExpiryTick: uint64(end), Transactions: count})
		}
	})
	for i := range g.Groups {
		end := survival.Tick(g.Groups[i].ExpiryTick)
		g.Groups[i].ExpiresIn = txn.Duration(r.Clock.Remaining(end).Round(time.Millisecond))
		if end > tick {
			g.Groups[i].RemainingInvocations = uint64(end - tick)
		}
	}
	return g
}
