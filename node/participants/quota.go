package participants

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// QuotaSetting is a setting of participants of every kind: how many branches may be unfinished
// there at once. Further ones are refused as unavailable before they reach the log, so that
// txmgr never uses up a limited resource such as PostgreSQL's max_prepared_transactions.
// Without it there is no limit.
const QuotaSetting = "quota"

// maxQuota is the most that a quota may be.
const maxQuota = 1_000_000

// quotaOf reads the quota of a registration; zero when it has none.
func quotaOf(p admin.Participant) (int, error) {
	text, ok := p.Settings[QuotaSetting]
	if !ok {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxQuota {
		return 0, fmt.Errorf("%w: participant %q: %s %q: want the number of branches that may be open there at once, 1 to %d; leave it out for no bound", txn.ErrInvalid, p.Name, QuotaSetting, text, maxQuota)
	}
	return n, nil
}

// Quotas refuses branches beyond the quotas of their participants. The log counts the unfinished
// branches; Quotas records only those that it admitted and that the log may not have yet.
type Quotas struct {
	view func(func(*machine.Machine))

	// limits are those of the current registrations; usually empty, which then costs
	// nothing.
	limits   atomic.Pointer[map[string]int]
	observed []machine.Registration // from which limits was built; used only by the goroutine that applies the log

	mu       sync.Mutex
	inflight map[string]map[txn.ID]int // guarded by mu: by participant and transaction, calls that add a branch there
}

// NewQuotas makes quotas that count what view shows of the state.
func NewQuotas(view func(func(*machine.Machine))) *Quotas {
	q := &Quotas{view: view, inflight: make(map[string]map[txn.ID]int)}
	q.limits.Store(new(map[string]int))
	return q
}

// Observe is called with the registrations after every applied entry.
func (q *Quotas) Observe(now []machine.Registration) {
	if len(now) == len(q.observed) && (len(now) == 0 || &now[0] == &q.observed[0]) {
		return // the machine replaces the slice when it changes
	}
	q.observed = now
	limits := make(map[string]int)
	for _, r := range now {
		if n, err := quotaOf(r.Participant); err == nil && n > 0 && !r.Removed {
			limits[r.Name] = n
		}
	}
	q.limits.Store(&limits)
}

// ReserveBegin reserves the branches of a begin; see reserve.
func (q *Quotas) ReserveBegin(o txn.Options) (release func(), err error) {
	limits := *q.limits.Load()
	if len(limits) == 0 {
		return nil, nil
	}
	var names []string
	for _, e := range o.Branches {
		if limits[e.Participant] > 0 {
			names = append(names, e.Participant)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	return q.reserve(limits, o.ID, names)
}

// ReserveEnlist reserves one branch; see reserve.
func (q *Quotas) ReserveEnlist(id txn.ID, e txn.Enlistment) (release func(), err error) {
	limits := *q.limits.Load()
	if limits[e.Participant] == 0 {
		return nil, nil
	}
	return q.reserve(limits, id, []string{e.Participant})
}

// reserve reserves a branch of the transaction at each of the participants, or refuses. A repeated
// call is admitted and shares the reservation. release, which may be nil, must be called when the
// log has accepted or refused the branches.
func (q *Quotas) reserve(limits map[string]int, id txn.ID, names []string) (release func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var reserved []string
	inflight := q.inflight
	q.view(func(m *machine.Machine) {
		for _, name := range names {
			if hasBranchAt(m, id, name) {
				continue
			}
			if used := used(m, name, inflight[name], limits[name]); used >= limits[name] && inflight[name][id] == 0 {
				err = fmt.Errorf("%w: participant %q has %d unfinished branches, and its %s is %d: try again when some have ended", txn.ErrUnavailable, name, used, QuotaSetting, limits[name])
				return
			}
			reserved = append(reserved, name)
		}
	})
	if err != nil || len(reserved) == 0 {
		return nil, err
	}
	for _, name := range reserved {
		if q.inflight[name] == nil {
			q.inflight[name] = make(map[txn.ID]int)
		}
		q.inflight[name][id]++
	}
	return func() { q.release(id, reserved) }, nil
}

// release ends the reservation of a transaction's branches: the log has accepted or refused them.
func (q *Quotas) release(id txn.ID, names []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, name := range names {
		if q.inflight[name][id]--; q.inflight[name][id] == 0 {
			delete(q.inflight[name], id)
		}
	}
}

// used counts the branches that are unfinished at a participant, or about to be. Branches whose
// callers have no answer yet may be in the log already: only near the limit is this checked.
func used(m *machine.Machine, name string, inflight map[txn.ID]int, limit int) int {
	n := m.UnfinishedBranches(name) + len(inflight)
	if n < limit {
		return n
	}
	for id := range inflight {
		if hasBranchAt(m, id, name) {
			n--
		}
	}
	return n
}

// hasBranchAt reports whether a transaction has a branch at a participant.
func hasBranchAt(m *machine.Machine, id txn.ID, name string) bool {
	t, _ := m.Get(id)
	return slices.ContainsFunc(t.Branches, func(b machine.TransactionBranch) bool { return b.Participant == name })
}

// Usage returns how many branches are open at a participant, and its quota; ok is false when
// it has none.
func (q *Quotas) Usage(name string) (open, limit int, ok bool) {
	limit = (*q.limits.Load())[name]
	if limit == 0 {
		return 0, 0, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	inflight := q.inflight[name]
	q.view(func(m *machine.Machine) { open = used(m, name, inflight, 0) })
	return open, limit, true
}
