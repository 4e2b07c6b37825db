package servertest

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Cluster is the cluster id of the fake.
const Cluster = "fake"

// Interval is the time between two ticks of the fake.
const Interval = 100 * time.Millisecond

// Fake is a [server.Coordinator] in memory. Make it with [New].
type Fake struct {
	// Before, if set, runs at the start of every call, without a lock; its error is the
	// call's error. Set it before the first call.
	Before func(ctx context.Context, op string, id txn.ID) error
	// Began is the begin time of every transaction. Set it before the first call.
	Began time.Time

	mu           sync.Mutex // guards everything below
	transactions map[txn.ID]*txn.Info
	participants map[string]admin.Participant
	changed      chan struct{} // closed and replaced at every change of state
	events       []admin.Event
	audit        []admin.AuditRecord
	notReady     error

	leader         string // URL of the leader's API, if this node is a follower
	isFollower     bool
	members        []admin.Member
	joined         int // nodes that have ever joined
	backup         []byte
	recoveryPaused bool
	tokens         []token
	sessions       []admin.ClientSession
	tokenLookups   int
}

var _ server.Coordinator = (*Fake)(nil)

// New makes a fake with the participants bank and stock.
func New() *Fake {
	return &Fake{
		Began:        time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		transactions: make(map[txn.ID]*txn.Info),
		participants: map[string]admin.Participant{
			"bank":  {Name: "bank", Kind: "postgres", Settings: map[string]string{"dsn": "bank"}},
			"stock": {Name: "stock", Kind: "ledger"},
		},
		changed: make(chan struct{}),
		members: []admin.Member{memberSelf()},
		backup:  []byte("the whole state of the fake"),
	}
}

// Admin implements [server.Coordinator]: the fake has the calls of operators as its own methods.
func (f *Fake) Admin() admin.Calls { return f }

// SetReady sets what Ready returns.
func (f *Fake) SetReady(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notReady = err
}

// Ready implements [server.Coordinator].
func (f *Fake) Ready() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.notReady
}

func (f *Fake) before(ctx context.Context, op string, id txn.ID) error {
	if f.Before == nil {
		return nil
	}
	return f.Before(ctx, op, id)
}

// withTx runs do under the lock on a transaction that exists.
func (f *Fake) withTx(ctx context.Context, op string, id txn.ID, do func(*txn.Info) error) (txn.Outcome, error) {
	if err := f.before(ctx, op, id); err != nil {
		return txn.Outcome{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.transactions[id]
	if i == nil {
		return txn.Outcome{}, &txn.Error{Op: op, ID: id, Err: txn.ErrNotFound}
	}
	was := i.State
	err := do(i)
	if i.State != was {
		f.notifyLocked(i)
	}
	o := txn.Outcome{State: i.State, Cause: i.Cause, EndedByApplication: i.EndedByApplication()}
	if err == nil { // an error carries no outcome
		o.Heuristic = i.Heuristic
	}
	return o, err
}

func (f *Fake) notifyLocked(i *txn.Info) {
	if len(f.events) < 1<<16 {
		f.events = append(f.events, admin.Event{ID: i.ID, Name: i.Name, State: i.State, Cause: i.Cause, Heuristic: i.Heuristic, Tick: uint64(len(f.events)), Time: f.Began})
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

func refused(op string, i *txn.Info, err error, detail string) error {
	e := &txn.Error{Op: op, ID: i.ID, State: i.State, Cause: i.Cause, Err: err}
	if err == txn.ErrRolledBack {
		e = i.RolledBack(op)
	}
	e.Detail = detail
	return e
}

// Begin implements [txn.Manager].
func (f *Fake) Begin(ctx context.Context, o txn.Options) (txn.BeginResult, error) {
	if o.ID.IsZero() {
		o.ID = txn.NewID(f.Began, [9]byte{1})
	}
	if err := f.before(ctx, "begin", o.ID); err != nil {
		return txn.BeginResult{}, err
	}
	if err := o.Check(); err != nil {
		return txn.BeginResult{}, &txn.Error{Op: "begin", ID: o.ID, Err: err}
	}
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.transactions[o.ID]
	if _, err := f.sessionLocked("begin", o.Session); err != nil && i == nil && !o.Session.IsZero() {
		refused := *txn.Wrap("begin", o.ID, err)
		refused.ID = o.ID
		return txn.BeginResult{}, &refused
	}
	if i == nil {
		i = &txn.Info{
			ID: o.ID, Name: o.Name, State: txn.Active, Timeout: txn.Duration(o.Timeout), Began: f.Began, Labels: o.Labels,
			SurvivalIndex: uint64(o.Timeout/Interval) + 1, ExpiryTick: uint64(o.Timeout/Interval) + 1,
			RemainingInvocations: uint64(o.Timeout/Interval) + 1, ExpiresIn: txn.Duration(o.Timeout), Session: o.Session,
		}
		for _, e := range o.Branches {
			if _, err := f.enlistLocked(i, e); err != nil {
				return txn.BeginResult{}, err
			}
		}
		f.transactions[o.ID] = i
		f.notifyLocked(i)
	} else if i.Name != o.Name || time.Duration(i.Timeout) != o.Timeout || !maps.Equal(i.Labels, o.Labels) {
		return txn.BeginResult{}, refused("begin", i, txn.ErrConflict, "the id was used before with other options")
	}
	b := txn.BeginResult{ID: i.ID, Timeout: o.Timeout, SurvivalIndex: i.SurvivalIndex, ExpiryTick: i.ExpiryTick, Mark: txn.Mark{Tick: 42}, Appoints: true}
	for _, one := range i.Branches {
		b.Branches = append(b.Branches, txn.Branch{ID: one.ID, Participant: one.Participant, XID: one.XID})
	}
	return b, nil
}

func (f *Fake) enlistLocked(i *txn.Info, e txn.Enlistment) (txn.Branch, error) {
	p, ok := f.participants[e.Participant]
	if !ok {
		return txn.Branch{}, refused("enlist", i, txn.ErrNotFound, fmt.Sprintf("no participant %q", e.Participant))
	}
	for _, b := range i.Branches {
		if b.Participant == e.Participant {
			return txn.Branch{ID: b.ID, Participant: b.Participant, XID: b.XID}, nil
		}
	}
	id := txn.BranchID(len(i.Branches) + 1)
	b := txn.BranchInfo{
		ID: id, Name: id.String(), Participant: p.Name, Kind: p.Kind,
		XID: txn.XID(Cluster, i.ID, id), State: txn.BranchEnlisted,
	}
	i.Branches = append(i.Branches, b)
	return txn.Branch{ID: b.ID, Participant: b.Participant, XID: b.XID}, nil
}

// requireActive returns an error if the transaction is not active.
func requireActive(op string, i *txn.Info) error {
	if err := requireUndelegated(op, i); err != nil {
		return err
	}
	if i.State != txn.Active {
		return refused(op, i, txn.ErrNotActive, "")
	}
	return nil
}

// Enlist implements [txn.Manager].
func (f *Fake) Enlist(ctx context.Context, id txn.ID, e txn.Enlistment) (b txn.Branch, err error) {
	_, err = f.withTx(ctx, "enlist", id, func(i *txn.Info) error {
		if err := e.Check(); err != nil {
			return refused("enlist", i, err, "")
		}
		if err := requireActive("enlist", i); err != nil {
			return err
		}
		b, err = f.enlistLocked(i, e)
		return err
	})
	return b, err
}

// Commit implements [txn.Manager].
func (f *Fake) Commit(ctx context.Context, id txn.ID, c txn.CommitRequest) (txn.Outcome, error) {
	return f.withTx(ctx, "commit", id, func(i *txn.Info) error {
		if i.State.Decided() {
			if !i.State.Commits() {
				return refused("commit", i, txn.ErrRolledBack, "")
			}
			return nil
		}
		if err := requireUndelegated("commit", i); err != nil {
			return err
		}
		for _, v := range c.Votes {
			if v.Branch < 1 || int(v.Branch) > len(i.Branches) {
				return refused("commit", i, txn.ErrNotFound, "no branch "+v.Branch.String())
			}
			b := &i.Branches[v.Branch-1]
			b.Vote, b.State = v.Vote, txn.BranchPrepared
		}
		for _, b := range i.Branches {
			switch b.Vote {
			case txn.VotePrepared, txn.VoteReadOnly:
			case txn.VoteNo:
				f.decideLocked(i, txn.RollingBack, txn.CauseVoteNo)
				return refused("commit", i, txn.ErrRolledBack, b.Participant+" voted no")
			default:
				return refused("commit", i, txn.ErrConflict, "no vote of "+b.Participant)
			}
		}
		f.decideLocked(i, txn.Committing, 0)
		return nil
	})
}

// decideLocked also finishes a transaction whose branches need no phase two.
func (f *Fake) decideLocked(i *txn.Info, s txn.State, c txn.Cause) {
	i.State, i.Cause, i.ExpiresIn, i.RemainingInvocations = s, c, 0, 0
	i.Decided, i.DecidedIndex = f.Began, uint64(len(f.events)+1)
	if len(i.Branches) == 0 {
		i.State++
	}
}

// Rollback implements [txn.Manager].
func (f *Fake) Rollback(ctx context.Context, id txn.ID, reason string) (txn.Outcome, error) {
	return f.withTx(ctx, "rollback", id, func(i *txn.Info) error {
		if i.State.Commits() {
			return refused("rollback", i, txn.ErrConflict, "decided to commit")
		}
		if err := requireUndelegated("rollback", i); err != nil {
			return err
		}
		if !i.State.Decided() {
			i.Reason = reason
			f.decideLocked(i, txn.RollingBack, txn.CauseClient)
		}
		if i.EndedByApplication() {
			return refused("rollback", i, txn.ErrEndedByApplication, "")
		}
		return nil
	})
}

// Extend implements [txn.Manager].
func (f *Fake) Extend(ctx context.Context, id txn.ID, timeout time.Duration) (txn.Outcome, error) {
	return f.withTx(ctx, "extend", id, func(i *txn.Info) error {
		if err := requireActive("extend", i); err != nil {
			return err
		}
		i.Timeout = max(i.Timeout, txn.Duration(timeout))
		return nil
	})
}

// ReportCompletion implements [txn.Manager].
func (f *Fake) ReportCompletion(ctx context.Context, id txn.ID, acks ...txn.CompletionReport) error {
	_, err := f.withTx(ctx, "done", id, func(i *txn.Info) error {
		for _, a := range acks {
			if a.Branch < 1 || int(a.Branch) > len(i.Branches) {
				return refused("done", i, txn.ErrNotFound, "no branch "+a.Branch.String())
			}
			if delegatedBranch(i) == a.Branch {
				f.decideDelegatedLocked(i, a.State)
			}
			if !i.State.Decided() || (a.State == txn.BranchCommitted) != i.State.Commits() {
				return refused("done", i, txn.ErrConflict, "not as decided")
			}
			b := &i.Branches[a.Branch-1]
			b.State, b.Heuristic, b.Detail = a.State, 0, ""
		}
		deriveHeuristic(i)
		return nil
	})
	return err
}

// Get implements [txn.Manager].
func (f *Fake) Get(ctx context.Context, id txn.ID) (found txn.Info, err error) {
	_, err = f.withTx(ctx, "get", id, func(i *txn.Info) error {
		found = cloneInfo(i)
		return nil
	})
	return found, err
}

func cloneInfo(i *txn.Info) txn.Info {
	c := *i
	c.Branches = slices.Clone(i.Branches)
	return c
}

// Wait implements [txn.Manager].
func (f *Fake) Wait(ctx context.Context, id txn.ID, goal txn.Goal) (found txn.Info, err error) {
	for {
		var changed chan struct{}
		_, err = f.withTx(ctx, "wait", id, func(i *txn.Info) error {
			found, changed = cloneInfo(i), f.changed
			return nil
		})
		if err != nil || found.State.Finished() || goal == txn.UntilDecided && found.State.Decided() {
			return found, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return found, &txn.Error{Op: "wait", ID: id, State: found.State, Err: txn.ErrWaitTimeout}
		}
	}
}

// List implements [server.Coordinator].
func (f *Fake) List(ctx context.Context, filter admin.Filter) ([]txn.Info, error) {
	if err := f.before(ctx, "list", txn.ID{}); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []txn.Info
	for _, i := range f.transactions {
		if matches(filter, i.ID, i.State) {
			found = append(found, cloneInfo(i))
		}
	}
	slices.SortFunc(found, func(a, b txn.Info) int { return a.ID.Compare(b.ID) })
	return found[:min(len(found), cmp.Or(filter.Limit, 1000))], nil
}

func matches(f admin.Filter, id txn.ID, s txn.State) bool {
	return (len(f.States) == 0 || slices.Contains(f.States, s)) && strings.HasPrefix(id.String(), f.Prefix)
}

// Watch implements [server.Coordinator].
func (f *Fake) Watch(ctx context.Context, filter admin.Filter) iter.Seq2[admin.Event, error] {
	return func(yield func(admin.Event, error) bool) {
		if err := f.before(ctx, "watch", txn.ID{}); err != nil {
			yield(admin.Event{}, err)
			return
		}
		f.mu.Lock()
		seen := len(f.events)
		f.mu.Unlock()
		for {
			f.mu.Lock()
			news, changed := slices.Clone(f.events[seen:]), f.changed
			f.mu.Unlock()
			seen += len(news)
			for _, e := range news {
				if matches(filter, e.ID, e.State) && !yield(e, nil) {
					return
				}
			}
			if len(news) > 0 {
				continue
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}
