package txntest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/random"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// Interval is the time between two invocations of the timeout thread: a transaction times out
// when its timeout has passed, and less than an Interval later.
const Interval = 100 * time.Millisecond

// Defaults of a coordinator.
const (
	cluster          = "txntest"
	maxTimeout       = 24 * time.Hour
	retention        = time.Hour
	retain           = 1_000_000
	defaultListLimit = 1000    // sessions, in a list without a limit
	maxListLimit     = 100_000 // in any
	clockSlack       = time.Minute
)

// Manager is a coordinator in memory. Make one with [New]. It is a [txn.Manager],
// and all of it is safe for concurrent use.
type Manager struct {
	tb      testing.TB
	start   time.Time
	ctx     context.Context // ends with the test
	end     context.CancelFunc
	running sync.WaitGroup // drivers, and the timer's function
	faults  *faults

	mu           sync.Mutex // guards all below
	closed       bool
	machine      *machine.Machine
	entries      uint64
	order        []txn.ID                   // in the order of their begin
	participants map[string]fakeParticipant // the participants that the manager can drive
	driving      map[branchKey]time.Time    // branches that have a driver, and since when
	watched      map[txn.ID]chan struct{}   // closed at the next change
	belts        map[time.Duration]*belt    // open sessions, by TTL
	nextRotation time.Time                  // when the belts have to be checked next
	timer        *time.Timer                // of the next deadline, or rotation of the belts
	timerAt      time.Time                  // what timer waits for
}

var _ txn.Namer = (*Manager)(nil)

// New returns a coordinator that ends with the test. In a bubble of testing/synctest it is to
// be made in the bubble.
func New(tb testing.TB) *Manager {
	tb.Helper()
	m := &Manager{
		tb: tb, start: time.Now(), machine: machine.New(),
		participants: map[string]fakeParticipant{}, driving: map[branchKey]time.Time{}, watched: map[txn.ID]chan struct{}{},
		belts: map[time.Duration]*belt{},
	}
	m.nextRotation = m.start.Add(time.Hour) // the first session starts the rotation
	m.ctx, m.end = context.WithCancel(context.Background())
	m.faults = newFaults(m.ctx, append([]string{"begin", "enlist", "commit", "rollback", "vote", "delegate", "extend", "done", "get", "wait"}, sessionCalls...)...)
	m.applyLocked(machine.Bootstrap{Cluster: cluster, Interval: Interval, Retention: retention, Retain: retain})
	tb.Cleanup(m.close)
	return m
}

func (m *Manager) close() {
	m.mu.Lock()
	m.closed = true
	m.disarmLocked()
	m.mu.Unlock()
	m.end()
	m.running.Wait()
}

// Fail makes the next calls of a name fail, one fault for each. The names are those of the
// methods of [txn.Manager], in lower case; those about sessions are "open session", "keep
// alive", "close session" and "list sessions". A call that gets lost is [txn.ErrUnavailable] or
// [txn.ErrInDoubt] to the caller, as when a real coordinator cannot be reached.
func (m *Manager) Fail(call string, next ...Fault) {
	m.tb.Helper()
	if err := m.faults.add(call, next); err != nil {
		m.tb.Fatalf("txntest: %v", err)
	}
}

// Begin implements [txn.Manager]. A participant that is not known is registered as one whose
// branches the application prepares.
func (m *Manager) Begin(ctx context.Context, o txn.Options) (txn.BeginResult, error) {
	made := o.ID.IsZero()
	if made {
		o.ID, o.Mark = random.TransactionID(), txn.Mark{}
	}
	if o.Timeout == 0 {
		o.Timeout = txn.DefaultTimeout
	}
	return withFaults(ctx, m, "begin", o.ID, func() (b txn.BeginResult, err error) {
		if err := o.Check(); err != nil {
			return b, txn.Wrap("begin", o.ID, err)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		k, expiry, err := m.deadlineLocked(o.Timeout)
		if err != nil {
			return b, txn.Wrap("begin", o.ID, err)
		}
		if !made && o.Mark.IsZero() {
			o.Mark = m.machine.MarkForID(o.ID, m.machine.Tick(), time.Now(), clockSlack)
		}
		c := machine.Begin{ID: o.ID, Name: o.Name, Timeout: o.Timeout, Survival: k, Expiry: expiry, Labels: machine.SortedLabels(o.Labels), Session: o.Session, Mark: o.Mark}
		for _, e := range o.Branches {
			m.registerLocked(e.Participant, false)
			c.Branches = append(c.Branches, machine.Branch(e))
		}
		_, known := m.machine.Lookup(o.ID)
		res, err := m.callLocked("begin", o.ID, c)
		if err != nil {
			return b, res.ExplainBegin(err, o)
		}
		if !known {
			m.order = append(m.order, o.ID)
		}
		b = txn.BeginResult{ID: o.ID, Timeout: res.Timeout, SurvivalIndex: res.Survival, ExpiryTick: uint64(res.Expiry), Mark: res.Mark, Appoints: true}
		for i, e := range o.Branches {
			n := txn.BranchID(i + 1)
			b.Branches = append(b.Branches, txn.Branch{ID: n, Participant: e.Participant, XID: txn.XID(cluster, o.ID, n)})
		}
		return b, nil
	})
}

// Enlist implements [txn.Manager]. A participant that is not known is registered as one whose
// branches the application prepares.
func (m *Manager) Enlist(ctx context.Context, id txn.ID, e txn.Enlistment) (txn.Branch, error) {
	return withFaults(ctx, m, "enlist", id, func() (b txn.Branch, err error) {
		if err := e.Check(); err != nil {
			return b, txn.Wrap("enlist", id, err)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.registerLocked(e.Participant, false)
		res, err := m.callLocked("enlist", id, machine.Enlist{ID: id, Branch: machine.Branch(e)})
		if err != nil {
			return b, res.ExplainEnlist(err, e.Participant)
		}
		return txn.Branch{ID: res.Branch, Participant: e.Participant, XID: txn.XID(cluster, id, res.Branch)}, nil
	})
}

// Commit implements [txn.Manager]. While the votes of services are being collected
// it waits, at most until the transaction's deadline.
func (m *Manager) Commit(ctx context.Context, id txn.ID, c txn.CommitRequest) (txn.Outcome, error) {
	return withFaults(ctx, m, "commit", id, func() (txn.Outcome, error) {
		votes, out, err := m.reportEndedByApplication("commit", id, c.Votes, "")
		if err != nil {
			return out, err
		}
		out, err = m.call("commit", id, machine.Commit{ID: id, Votes: votes, ClientCompletes: c.ClientCompletes})
		if err != nil || out.State != txn.Preparing {
			return out, m.withReason(err)
		}
		info, err := m.await(ctx, "commit", id, txn.State.Decided)
		out = txn.Outcome{State: info.State, Cause: info.Cause, Heuristic: info.Heuristic, EndedByApplication: info.EndedByApplication()}
		switch {
		case err != nil && ctx.Err() == nil:
			return out, &txn.Error{Op: "commit", ID: id, State: out.State, Err: txn.ErrInDoubt, Detail: "the coordinator is stopping"}
		case err != nil:
			e := txn.Wrap("commit", id, fmt.Errorf("%w: %w while the coordinator collects the votes that are missing", txn.ErrInDoubt, err))
			e.State = out.State
			return out, e
		case !out.State.Commits():
			return out, m.withReason(m.rollbackError("commit", id))
		}
		return out, nil
	})
}

// Vote implements [txn.Manager].
func (m *Manager) Vote(ctx context.Context, id txn.ID, b txn.Votes) (txn.Outcome, error) {
	return withFaults(ctx, m, "vote", id, func() (txn.Outcome, error) {
		if len(b.Reason) > txn.MaxReason {
			return txn.Outcome{}, reasonTooLong("vote", id, len(b.Reason))
		}
		votes, out, err := m.reportEndedByApplication("vote", id, b.Votes, b.Reason)
		told := len(votes) < len(b.Votes)
		if err != nil || told && len(votes) == 0 {
			return out, err
		}
		out, err = m.call("vote", id, machine.Vote{ID: id, Votes: votes, ClientCompletes: b.ClientCompletes, Reason: b.Reason})
		if told && out.EndedByApplication {
			return out, nil // as the caller has reported; the other votes make no difference
		}
		return out, m.withReason(endedByApplicationError("vote", id, out, err))
	})
}

// Delegate implements [txn.Manager].
func (m *Manager) Delegate(ctx context.Context, id txn.ID, b txn.BranchID) (txn.Outcome, error) {
	return withFaults(ctx, m, "delegate", id, func() (txn.Outcome, error) {
		out, err := m.call("delegate", id, machine.Delegate{ID: id, Branch: b})
		return out, m.withReason(err)
	})
}

// Rollback implements [txn.Manager].
func (m *Manager) Rollback(ctx context.Context, id txn.ID, reason string) (txn.Outcome, error) {
	return withFaults(ctx, m, "rollback", id, func() (txn.Outcome, error) {
		if len(reason) > txn.MaxReason {
			return txn.Outcome{}, reasonTooLong("rollback", id, len(reason))
		}
		out, err := m.call("rollback", id, machine.Rollback{ID: id, Cause: txn.CauseClient, Reason: reason})
		if err == nil && out.State == txn.Preparing { // a branch that decides has to be asked
			info, err := m.await(ctx, "rollback", id, txn.State.Decided)
			if err == nil && info.State.Commits() {
				err = machine.Result{Code: machine.Decided, State: info.State}.ToError("rollback", id)
			}
			out = info.Outcome()
			return out, m.withReason(endedByApplicationError("rollback", id, out, err))
		}
		return out, m.withReason(endedByApplicationError("rollback", id, out, err))
	})
}

// Extend implements [txn.Manager].
func (m *Manager) Extend(ctx context.Context, id txn.ID, timeout time.Duration) (txn.Outcome, error) {
	return withFaults(ctx, m, "extend", id, func() (txn.Outcome, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		k, expiry, err := m.deadlineLocked(timeout)
		if err != nil {
			return txn.Outcome{}, txn.Wrap("extend", id, err)
		}
		res, err := m.callLocked("extend", id, machine.Extend{ID: id, Timeout: timeout, Survival: k, Expiry: expiry})
		return outcomeOf(res), err
	})
}

// ReportCompletion implements [txn.Manager].
func (m *Manager) ReportCompletion(ctx context.Context, id txn.ID, acks ...txn.CompletionReport) error {
	_, err := withFaults(ctx, m, "done", id, func() (txn.Outcome, error) {
		return m.call("done", id, machine.ReportCompletion{ID: id, Reports: acks})
	})
	return err
}

// Get implements [txn.Manager].
func (m *Manager) Get(ctx context.Context, id txn.ID) (txn.Info, error) {
	return withFaults(ctx, m, "get", id, func() (txn.Info, error) {
		info, _, err := m.watch(id)
		return info, err
	})
}

// Wait implements [txn.Manager].
func (m *Manager) Wait(ctx context.Context, id txn.ID, goal txn.Goal) (txn.Info, error) {
	return withFaults(ctx, m, "wait", id, func() (txn.Info, error) {
		reached := txn.State.Finished
		if goal == txn.UntilDecided {
			reached = txn.State.Decided
		}
		info, err := m.await(ctx, "wait", id, reached)
		if err != nil && ctx.Err() != nil {
			err = &txn.Error{Op: "wait", ID: id, State: info.State, Err: txn.ErrWaitTimeout, Detail: "the transaction goes on"}
		}
		return info, err
	})
}
