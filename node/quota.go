package node

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// QuotaSetting is a setting of participants of every kind: how many branches may be
// unfinished there at once. More are refused as unavailable before they get into the
// log, so that what the resource has only so many of, such as PostgreSQL's
// max_prepared_transactions, is never used up by us. Without it there is no bound.
const QuotaSetting = "quota"

// maxQuota is the most that a quota may be.
const maxQuota = 1_000_000

// quotaOf reads the quota of a registration; zero when it has none.
func quotaOf(p txn.Participant) (int, error) {
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

// ofKind is the registration as its kind knows it: without the settings of every kind.
func ofKind(p txn.Participant) txn.Participant {
	for _, key := range []string{QuotaSetting, OptimizerSetting} {
		if _, ok := p.Settings[key]; ok {
			p.Settings = maps.Clone(p.Settings)
			delete(p.Settings, key)
		}
	}
	return p
}

// quotas holds back branches beyond the quotas of their participants. The log counts
// what is unfinished there; quotas remembers only what it let through and the log may
// not have yet.
type quotas struct {
	view func(func(*machine.Machine))

	// limits are those of the registrations in force; empty in the ordinary case,
	// which then costs nothing.
	limits atomic.Pointer[map[string]int]
	seen   []machine.Registration // from which limits was made; of the log's goroutine alone

	mu     sync.Mutex
	flying map[string]map[txn.ID]int // guarded by mu: by participant and transaction, calls that bring a branch there
}

func newQuotas(view func(func(*machine.Machine))) *quotas {
	q := &quotas{view: view, flying: make(map[string]map[txn.ID]int)}
	q.limits.Store(new(map[string]int))
	return q
}

// observe is told of the registrations after every entry.
func (q *quotas) observe(now []machine.Registration) {
	if len(now) == len(q.seen) && (len(now) == 0 || &now[0] == &q.seen[0]) {
		return // the machine replaces the slice when it changes
	}
	q.seen = now
	limits := make(map[string]int)
	for _, r := range now {
		if n, err := quotaOf(r.Participant); err == nil && n > 0 && !r.Removed {
			limits[r.Name] = n
		}
	}
	q.limits.Store(&limits)
}

// begin reserves room for the branches of a begin; see reserve.
func (q *quotas) begin(o txn.Options) (over func(), err error) {
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

// enlist reserves room for one branch; see reserve.
func (q *quotas) enlist(id txn.ID, e txn.Enlistment) (over func(), err error) {
	limits := *q.limits.Load()
	if limits[e.Participant] == 0 {
		return nil, nil
	}
	return q.reserve(limits, id, []string{e.Participant})
}

// reserve makes room for a branch of the transaction at each of the participants,
// or refuses. A repeated call is let through, and holds the same place. over is to be called
// when the log has, or has refused, the branches; it may be nil.
func (q *quotas) reserve(limits map[string]int, id txn.ID, names []string) (over func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var held []string
	flying := q.flying
	q.view(func(m *machine.Machine) {
		for _, name := range names {
			if branchAt(m, id, name) {
				continue
			}
			if used := used(m, name, flying[name], limits[name]); used >= limits[name] && flying[name][id] == 0 {
				err = fmt.Errorf("%w: participant %q has %d unfinished branches, and its %s is %d: try again when some have ended", txn.ErrUnavailable, name, used, QuotaSetting, limits[name])
				return
			}
			held = append(held, name)
		}
	})
	if err != nil || len(held) == 0 {
		return nil, err
	}
	for _, name := range held {
		if q.flying[name] == nil {
			q.flying[name] = make(map[txn.ID]int)
		}
		q.flying[name][id]++
	}
	return func() { q.landed(id, held) }, nil
}

// landed says that the log knows all there is to know about a transaction's
// branches.
func (q *quotas) landed(id txn.ID, names []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, name := range names {
		if q.flying[name][id]--; q.flying[name][id] == 0 {
			delete(q.flying[name], id)
		}
	}
}

// used is how many branches are unfinished at a participant, or about to be. Those whose callers have not been answered
// yet may be in the log already: they are told apart when it matters.
func used(m *machine.Machine, name string, flying map[txn.ID]int, limit int) int {
	n := m.Open(name) + len(flying)
	if n < limit {
		return n
	}
	for id := range flying {
		if branchAt(m, id, name) {
			n--
		}
	}
	return n
}

// branchAt says whether a transaction has a branch at a participant.
func branchAt(m *machine.Machine, id txn.ID, name string) bool {
	t, _ := m.Get(id)
	return slices.ContainsFunc(t.Branches, func(b machine.TransactionBranch) bool { return b.Participant == name })
}

// use says how many branches are open at a participant, and its quota; ok is false when
// it has none.
func (q *quotas) use(name string) (open, limit int, ok bool) {
	limit = (*q.limits.Load())[name]
	if limit == 0 {
		return 0, 0, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	flying := q.flying[name]
	q.view(func(m *machine.Machine) { open = used(m, name, flying, 0) })
	return open, limit, true
}
