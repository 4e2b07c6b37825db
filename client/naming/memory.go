// Package naming remembers what a client has learnt from the coordinator's answers, so that the
// client can name transactions without a call ([txn.Namer]): the cluster's id, the default
// timeout, the latest mark, and whether a branch may be appointed.
//
//	var m naming.Memory
//	m.Begun(o, res, err)  // each answer to a begin
//	m.Enlisted(branch)    // each answer to an enlistment
//	n, ok := m.Name(o)
package naming

import (
	"errors"
	"sync"
	"time"

	"github.com/txmgr/txmgr/internal/random"
	"github.com/txmgr/txmgr/txn"
)

// maxMarkAge is how old the latest mark may be for a transaction to be named with it. The begin
// of an id whose mark is older than the retention horizon is refused; a begin by a call then
// makes another id, but one that is sent behind the work cannot.
const maxMarkAge = 30 * time.Second

// Memory is what a client has learnt. The zero value knows nothing. Safe for concurrent use.
type Memory struct {
	hints txn.BranchHints

	mu             sync.Mutex // guards all below
	cluster        string
	defaultTimeout time.Duration // granted to a begin that asked for none
	mark           txn.Mark
	markedAt       time.Time // when the mark was, or could have been, learnt
	appoints       bool      // the latest answer to a begin said that branches may be appointed
}

// LatestMark is the latest mark that a coordinator has returned, for an id that is made now. The
// log has surely reached it, whichever node returned it.
func (m *Memory) LatestMark() txn.Mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mark
}

// Begun learns from the answer to a begin. Another incarnation of the cluster counts ticks anew;
// a late response of the former one costs at most one refused begin. A refusal, and a begin without an answer, do not say
// who will answer the next one: no branch is appointed until an answer says again that it may be.
func (m *Memory) Begun(asked txn.Options, b txn.BeginResult, err error) {
	mark := b.Mark
	if e := (*txn.Error)(nil); errors.As(err, &e) {
		mark = e.Mark
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.appoints = err == nil && b.Appoints
	if err == nil && asked.Timeout == 0 {
		m.defaultTimeout = b.Timeout
	}
	for _, branch := range b.Branches {
		m.enlistedLocked(branch)
	}
	if mark.IsZero() {
		return
	}
	if mark.Epoch != m.mark.Epoch || mark.Tick >= m.mark.Tick || err != nil {
		m.mark, m.markedAt = mark, time.Now()
	}
}

// Enlisted learns the cluster's id from the name of a branch.
func (m *Memory) Enlisted(b txn.Branch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.enlistedLocked(b)
}

func (m *Memory) enlistedLocked(b txn.Branch) {
	if cluster, _, _, ok := txn.ParseXID(b.XID); ok && cluster != m.cluster {
		m.cluster = cluster
	}
}

// Name names a transaction; see [txn.Namer]. ok is false when the cluster's id, a mark that is
// young enough, or the default timeout that the options need is not known.
func (m *Memory) Name(o txn.Options) (n txn.Naming, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o.Timeout == 0 {
		o.Timeout = m.defaultTimeout
	}
	if m.cluster == "" || o.Timeout == 0 || m.mark.IsZero() || time.Since(m.markedAt) > maxMarkAge {
		return n, false
	}
	o.ID, o.Mark = random.TransactionID(), m.mark
	return txn.Naming{Options: o, Cluster: m.cluster, Hints: &m.hints, Appoints: m.appoints}, true
}
