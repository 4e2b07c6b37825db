package query

import (
	"slices"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// Sessions lists client sessions in the order of their ids: the newest ones when there are more than
// the filter's limit.
func (r Reader) Sessions(f admin.SessionFilter) []admin.ClientSession {
	limit := f.Limit
	if limit <= 0 {
		limit = defaultListLimit
	}
	limit = min(limit, maxListLimit)
	var found []machine.Session
	for from := uint32(0); ; {
		var part []machine.Session
		r.View(func(m *machine.Machine) {
			part, from = m.Sessions(from, scanStep, func(s *machine.Session) bool { return f.Ended || s.State == txn.SessionOpen })
		})
		found = append(found, part...)
		if len(found) > 2*limit || from == 0 {
			slices.SortFunc(found, func(a, b machine.Session) int { return a.ID.Compare(b.ID) })
			found = found[max(len(found)-limit, 0):]
		}
		if from == 0 {
			break
		}
	}
	out := make([]admin.ClientSession, len(found))
	for i := range found {
		out[i] = found[i].Public()
	}
	return out
}
