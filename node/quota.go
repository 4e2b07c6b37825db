package node

import (
	"fmt"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

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

// withoutQuota is the registration as its kind knows it.
func withoutQuota(p txn.Participant) txn.Participant {
	if _, ok := p.Settings[QuotaSetting]; ok {
		p.Settings = maps.Clone(p.Settings)
		delete(p.Settings, QuotaSetting)
	}
	return p
}

// quotas holds back branches beyond the quotas of their participants. It remembers
// which transactions may have an unfinished branch at a participant that has one:
// those it let through, and, when this node begins to lead, those of the log. When
// there seem to be too many, it asks the log which of them have ended.
type quotas struct {
	view func(func(*machine.Machine))

	// limits are those of the registrations in force; empty in the ordinary case,
	// which then costs nothing.
	limits atomic.Pointer[map[string]int]
	seen   []machine.Registration // from which limits was made; of the log's goroutine alone

	mu   sync.Mutex
	held map[string]*holders // guarded by mu: by participant
}

// holders are the transactions that may have an unfinished branch at a participant.
type holders struct {
	flying map[txn.ID]bool // true: on its way, so that the log may not have it yet
	tidied time.Time       // when those that have ended were last taken out
}

func newQuotas(view func(func(*machine.Machine))) *quotas {
	q := &quotas{view: view, held: make(map[string]*holders)}
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

// recount adds what the log has unfinished. It is for a node that begins to lead,
// and for a new quota.
func (q *quotas) recount() {
	limits := *q.limits.Load()
	if len(limits) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for from := uint32(0); ; {
		var part []machine.Transaction
		q.view(func(m *machine.Machine) {
			part, from = m.Scan(from, scanStep, func(b machine.Brief) bool { return !b.State.Finished() })
		})
		for i := range part {
			q.addLocked(&part[i], limits)
		}
		if from == 0 {
			return
		}
	}
}

func (q *quotas) addLocked(t *machine.Transaction, limits map[string]int) {
	for _, b := range t.Branches {
		if limits[b.Participant] == 0 || b.State.Finished() {
			continue
		}
		if h := q.holdersLocked(b.Participant); !h.flying[t.ID] {
			h.flying[t.ID] = false
		}
	}
}

func (q *quotas) holdersLocked(participant string) *holders {
	h := q.held[participant]
	if h == nil {
		h = &holders{flying: make(map[txn.ID]bool)}
		q.held[participant] = h
	}
	return h
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
// or refuses. A repeated call is let through. over is to be called when the log has,
// or has refused, the branches; it may be nil.
func (q *quotas) reserve(limits map[string]int, id txn.ID, names []string) (over func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var fresh []string
	for _, name := range names {
		h := q.holdersLocked(name)
		if _, repeated := h.flying[id]; repeated {
			continue
		}
		if len(h.flying) >= limits[name] && q.tidyLocked(name, h, id) {
			continue
		}
		if used := len(h.flying); used >= limits[name] {
			return nil, fmt.Errorf("%w: participant %q has %d unfinished branches, and its %s is %d: try again when some have ended", txn.ErrUnavailable, name, used, QuotaSetting, limits[name])
		}
		fresh = append(fresh, name)
	}
	if len(fresh) == 0 {
		return nil, nil
	}
	for _, name := range fresh {
		q.held[name].flying[id] = true
	}
	return func() { q.landed(id, fresh) }, nil
}

// landed says that the log knows all there is to know about a transaction's
// branches.
func (q *quotas) landed(id txn.ID, names []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, name := range names {
		q.held[name].flying[id] = false
	}
}

// While there is no room, every call looks for some. Where that is much work it is
// done so often that it takes a tenth of a processor: with 10,000 branches, ten times a
// second.
const (
	tidyFreely = 256
	tidyCost   = 10 * time.Microsecond // for each branch
)

// tidyLocked takes those out that have ended, and reports whether the log has a branch
// of the given transaction there. mu is held.
func (q *quotas) tidyLocked(name string, h *holders, id txn.ID) (known bool) {
	if n := len(h.flying); n > tidyFreely && time.Since(h.tidied) < time.Duration(n)*tidyCost {
		return false
	}
	q.view(func(m *machine.Machine) {
		known, _ = branchAt(m, id, name)
		for id, flying := range h.flying {
			if _, unfinished := branchAt(m, id, name); !flying && !unfinished {
				delete(h.flying, id)
			}
		}
	})
	h.tidied = time.Now()
	return known
}

// branchAt says whether a transaction has a branch at a participant, and whether that
// is unfinished.
func branchAt(m *machine.Machine, id txn.ID, name string) (there, unfinished bool) {
	t, _ := m.Get(id)
	for _, b := range t.Branches {
		if b.Participant == name {
			return true, !b.State.Finished()
		}
	}
	return false, false
}

// use says how many branches are open at a participant, and its quota; ok is false when
// it has none.
func (q *quotas) use(name string) (used, limit int, ok bool) {
	limit = (*q.limits.Load())[name]
	if limit == 0 {
		return 0, 0, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	h := q.holdersLocked(name)
	q.tidyLocked(name, h, txn.ID{})
	return len(h.flying), limit, true
}
