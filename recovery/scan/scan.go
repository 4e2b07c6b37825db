package scan

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery/call"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// lookupPage is the number of branches in one lookup in the log.
const lookupPage = 1000

// Log is what a scan reads in the log; recovery.Log has the contract of the methods.
type Log interface {
	Lookup(ctx context.Context, keys []plan.Key) ([]plan.BranchStatus, error)
	Participant(ctx context.Context, name string) (participant.Participant, error)
}

// Scanner scans the participants of one cluster. Safe for concurrent use when its fields are
// not changed any more.
type Scanner struct {
	Log     Log    // the coordinator's log
	Cluster string // the cluster id in the names of the branches
	// CallTimeout limits every call to a participant and to the log.
	CallTimeout time.Duration
	// Grace is how long a client may take to end its branches.
	Grace time.Duration
	// Limit is how many orphans a scan returns, and how many other branches.
	Limit int
	// Rand gives numbers in [0, 1); safe for concurrent use.
	Rand func() float64
}

// Orphan is a prepared branch that nothing drives, and what a sweep has to do with it.
type Orphan struct {
	Branch participant.Branch
	Action plan.Action // Commit or Rollback
	Result admin.ScanResult
}

// Result is what a scan found at a participant, at most [Scanner].Limit of each.
type Result struct {
	Orphans []Orphan
	Left    []admin.ScanResult // prepared, and to be left alone
	// Deciders are the appointed branches, which may be at other participants, for which others wait that
	// were found: see [plan.ReadsDecider].
	Deciders []plan.Branch
	// Unfinished are the transactions that have pending work in the log for a branch that
	// was found. They are complete also after an error.
	Unfinished []txn.ID
}

// ErrListPrepared marks failures of the participant.
var ErrListPrepared = errors.New("see what is prepared there")

// Scan finds the orphans: prepared branches that nothing drives. The order of its three reads makes it safe
// beside live transactions: see invariant 5 of package recovery.
func (s *Scanner) Scan(ctx context.Context, name string) (found Result, err error) {
	p, err := s.open(ctx, name)
	if err != nil {
		return found, err
	}
	first, err := s.listPrepared(ctx, p)
	if err != nil {
		return found, err
	}
	s.rotate(first)
	for len(first) > 0 {
		n := min(len(first), lookupPage)
		known, err := s.lookup(ctx, keysOf(first[:n]))
		if err != nil {
			return found, err
		}
		for i, b := range first[:n] {
			o := classify(name, b, known[i])
			switch {
			case o.Action != 0 && len(found.Orphans) < s.Limit:
				found.Orphans = append(found.Orphans, o)
			case o.Action == 0 && len(found.Left) < s.Limit:
				found.Left = append(found.Left, o.Result)
			}
			if known[i].Unfinished {
				found.Unfinished = append(found.Unfinished, b.TX)
			}
			if plan.ReadsDecider(known[i], preparedFor(b), s.Grace) && len(found.Deciders) < s.Limit {
				found.Deciders = append(found.Deciders, known[i].Decider)
			}
		}
		first = first[n:]
	}
	if len(found.Orphans) == 0 {
		return found, nil
	}
	second, err := s.listPrepared(ctx, p)
	if err != nil {
		return found, err
	}
	found.Orphans = stillPrepared(found.Orphans, second)
	return found, nil
}

// preparedBranch is one prepared branch of this cluster.
type preparedBranch struct {
	plan.Key
	participant.Prepared
}

func keysOf(page []preparedBranch) []plan.Key {
	keys := make([]plan.Key, len(page))
	for i, b := range page {
		keys[i] = b.Key
	}
	return keys
}

// rotate begins at a random position, so that branches that cannot be ended do
// not keep those behind the limit from being found.
func (s *Scanner) rotate(bs []preparedBranch) {
	if len(bs) <= s.Limit {
		return
	}
	at := int(s.Rand() * float64(len(bs)))
	copy(bs, append(append([]preparedBranch(nil), bs[at:]...), bs[:at]...))
}

// stillPrepared keeps the orphans that are still prepared.
func stillPrepared(orphans []Orphan, second []preparedBranch) []Orphan {
	there := make(map[plan.Key]bool, len(second))
	for _, b := range second {
		there[b.Key] = true
	}
	kept := orphans[:0]
	for _, o := range orphans {
		if there[plan.Key{TX: o.Branch.TX, Branch: o.Branch.ID}] {
			kept = append(kept, o)
		}
	}
	return kept
}

// open opens a participant. An error wraps [ErrListPrepared].
func (s *Scanner) open(ctx context.Context, name string) (participant.Participant, error) {
	ctx, cancel := context.WithTimeout(ctx, s.CallTimeout)
	defer cancel()
	p, err := s.Log.Participant(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%w: open participant: %w", ErrListPrepared, call.TimeoutError(ctx, s.CallTimeout, err))
	}
	return p, nil
}

// listPrepared lists what is prepared at a participant, and keeps what is certainly this
// cluster's, whatever the participant returns.
func (s *Scanner) listPrepared(ctx context.Context, p participant.Participant) (ours []preparedBranch, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.CallTimeout)
	defer cancel()
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrListPrepared, call.TimeoutError(ctx, s.CallTimeout, err))
		}
	}()
	defer call.RecoverPanic(&err)
	ps, err := p.Prepared(ctx, txn.ClusterPrefix(s.Cluster))
	if err != nil {
		return nil, err
	}
	for _, prepared := range ps {
		if k, ok := s.parse(prepared.XID); ok {
			ours = append(ours, preparedBranch{k, prepared})
		}
	}
	return ours, nil
}

// parse reads a branch's name; false when it is not this cluster's.
func (s *Scanner) parse(xid string) (plan.Key, bool) {
	cluster, id, branch, ok := txn.ParseXID(xid)
	return plan.Key{TX: id, Branch: branch}, ok && cluster == s.Cluster
}

// lookup reads at most one page of branches in the log.
func (s *Scanner) lookup(ctx context.Context, keys []plan.Key) ([]plan.BranchStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, s.CallTimeout)
	defer cancel()
	known, err := s.Log.Lookup(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("ask the log about them: %w", err)
	}
	if len(known) != len(keys) {
		return nil, fmt.Errorf("ask the log about them: %d answers to %d questions", len(known), len(keys))
	}
	return known, nil
}
