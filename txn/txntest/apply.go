package txntest

import (
	"context"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// now returns the tick and the time that remains until the next one.
func (m *Manager) now() (tick survival.Tick, untilNext time.Duration) {
	passed := time.Since(m.start)
	n := passed / Interval
	return survival.Tick(n), (n+1)*Interval - passed
}

// until is the time from now until the tick begins; zero when it has begun.
func (m *Manager) until(tick survival.Tick) time.Duration {
	now, untilNext := m.now()
	if tick <= now {
		return 0
	}
	return untilNext + time.Duration(tick-now-1)*Interval
}

// deadlineLocked computes the survival index of a timeout that begins now, and its expiry tick.
func (m *Manager) deadlineLocked(timeout time.Duration) (k uint64, expiry survival.Tick, err error) {
	if timeout < Interval || timeout > maxTimeout {
		return 0, 0, fmt.Errorf("%w: timeout %v: want at least one interval of the coordinator, %v, and at most %v", txn.ErrInvalid, timeout, Interval, maxTimeout)
	}
	tick, untilNext := m.now()
	i, err := survival.NewIndex(timeout, untilNext, Interval)
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %w", txn.ErrInvalid, err)
	}
	return uint64(i.Survival), i.Hash(tick), nil
}

// applyLocked is the log: it stamps one entry, applies it, and does what the machine asks for.
// Its caller holds mu, or is New.
func (m *Manager) applyLocked(commands ...machine.Command) []machine.Result {
	results := m.applyEntryLocked(commands)
	for m.machine.Due() {
		m.applyEntryLocked(nil)
	}
	m.armLocked()
	return results
}

func (m *Manager) applyEntryLocked(commands []machine.Command) []machine.Result {
	m.entries++
	tick, _ := m.now()
	fx := m.machine.Apply(machine.Entry{Tick: tick, Wall: time.Now().UnixMilli(), Commands: commands, Index: m.entries})
	for _, c := range fx.Changes {
		if changed := m.watched[c.ID]; changed != nil {
			close(changed)
			delete(m.watched, c.ID)
		}
	}
	for _, id := range append(fx.Pending, fx.DeferToClient...) {
		m.driveLocked(id)
	}
	return fx.Results
}

// nextLocked is when transactions time out next, or belts of sessions rotate; zero
// while nothing is open.
func (m *Manager) nextLocked() (next time.Time) {
	if tick, pending := m.machine.Next(); pending {
		next = m.start.Add(time.Duration(tick) * Interval)
	}
	if m.machine.Counts().Sessions > 0 && (next.IsZero() || m.nextRotation.Before(next)) {
		next = m.nextRotation
	}
	return next
}

// applyDueLocked does what is due at this moment, before the timer fires for it.
func (m *Manager) applyDueLocked() {
	if !time.Now().Before(m.nextRotation) {
		m.rotateLocked()
	}
	if tick, pending := m.machine.Next(); pending && m.until(tick) == 0 {
		m.applyLocked()
	}
}

// armLocked sets the timer to what is due next. There is none while nothing is open, so that a
// bubble of testing/synctest detects its deadlocks.
func (m *Manager) armLocked() {
	next := m.nextLocked()
	if m.timer != nil && m.timerAt.Equal(next) {
		return
	}
	m.disarmLocked()
	if next.IsZero() || m.closed {
		return
	}
	m.running.Add(1)
	m.timerAt = next
	var timer *time.Timer
	timer = time.AfterFunc(time.Until(next), func() {
		defer m.running.Done()
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.timer == timer { // otherwise another one has been set
			m.timer = nil
		}
		if !m.closed {
			m.applyDueLocked()
			m.armLocked()
		}
	})
	m.timer = timer
}

func (m *Manager) disarmLocked() {
	if m.timer != nil && m.timer.Stop() {
		m.running.Done()
	}
	m.timer = nil
}

// call carries out a command and turns a refusal into an error.
func (m *Manager) call(op string, id txn.ID, c machine.Command) (txn.Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	res, err := m.callLocked(op, id, c)
	return outcomeOf(res), err
}

func (m *Manager) callLocked(op string, id txn.ID, c machine.Command) (machine.Result, error) {
	switch {
	case id.IsZero():
		return machine.Result{}, &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: "no transaction id given"}
	case m.closed:
		return machine.Result{}, stoppingError(op, id)
	}
	m.applyDueLocked()
	res := m.applyLocked(c)[0]
	if res.Code == machine.OK {
		return res, nil
	}
	return res, res.ToError(op, id)
}

// registerLocked registers a participant. One that is known stays as it is.
func (m *Manager) registerLocked(name string, coordinatorPrepares bool) {
	if _, known := m.machine.Participant(name); !known && !m.closed {
		m.applyLocked(machine.AddParticipant{Participant: admin.Participant{Name: name, Kind: "txntest", CoordinatorPrepares: coordinatorPrepares}})
	}
}

// await returns when the transaction is in a state that was waited for; the error says that the
// state cannot be learnt, or that ctx has ended.
func (m *Manager) await(ctx context.Context, op string, id txn.ID, reached func(txn.State) bool) (txn.Info, error) {
	for {
		info, changed, err := m.watch(id)
		if err != nil || reached(info.State) {
			return info, err
		}
		select {
		case <-changed:
		case <-m.ctx.Done():
			return info, stoppingError(op, id)
		case <-ctx.Done():
			if newest, _, err := m.watch(id); err == nil {
				info = newest // as a node shows it, too
			}
			return info, context.Cause(ctx)
		}
	}
}

// watch returns a transaction as it is now, and a channel that is closed when it has changed.
func (m *Manager) watch(id txn.ID) (info txn.Info, changed <-chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return txn.Info{}, nil, stoppingError("get", id)
	}
	m.applyDueLocked()
	t, ok := m.machine.Get(id)
	if !ok {
		return txn.Info{}, nil, machine.Result{Code: machine.NotFound}.ToError("get", id)
	}
	if m.watched[id] == nil {
		m.watched[id] = make(chan struct{})
	}
	return m.infoLocked(&t), m.watched[id], nil
}
