package machine

import (
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// RetentionHorizon is the tick from which on every outcome is remembered: what finished at or
// after it is known, and what finished before may have been forgotten. It is derived from what
// is retained, so that it is the same after a snapshot. It is never after the machine's tick.
func (m *Machine) RetentionHorizon() survival.Tick {
	if m.boot.Interval <= 0 {
		return 0
	}
	horizon := survival.Tick(0)
	if kept := max(survival.Tick(m.boot.Retention/m.boot.Interval), 1); m.tick >= kept {
		horizon = m.tick - kept + 1
	}
	if uint64(m.Counts().Finished) < m.boot.Retain {
		return horizon // nothing was dropped early that would otherwise still be retained
	}
	// What was dropped because there were too many finished no later than the oldest that is
	// left, and not in the present step.
	oldest := m.retained.rotationAt(m.tick) * m.retained.step
	if ended, ok := m.OldestRetained(); ok {
		oldest = min(oldest, ended+1)
	}
	return max(horizon, oldest)
}

// Mark is the present point of the log, for ids that are made from now on.
func (m *Machine) Mark() txn.Mark {
	return txn.Mark{Epoch: m.epoch(), Tick: uint64(m.tick) + 1}
}

// epoch identifies the life of the cluster between two restores: when recovery was resumed after
// the last one, by the wall clock, in milliseconds; 0 before any. Nothing begins between a restore and the
// resume.
func (m *Machine) epoch() uint64 { return uint64(m.resumedAt) }

// MarkForID is the mark of an id whose maker knew none: no later than the point at which the id
// was made, by the time in it. tick is the present one by the clock that stamps entries, which
// is ahead of the log's where nothing was written for a while. Clocks may differ by slack. An
// id from further in the future cannot be judged, and counts as older than all others, as does
// one that was made before the state was restored from a backup and resumed.
func (m *Machine) MarkForID(id txn.ID, tick survival.Tick, now time.Time, slack time.Duration) txn.Mark {
	mark, made := txn.Mark{Epoch: m.epoch(), Tick: uint64(tick) + 1}, id.Time()
	age := now.Sub(made)
	if age < -slack || m.boot.Interval <= 0 || m.MayPredateBackup(made.UnixMilli(), slack.Milliseconds()) {
		return txn.Mark{Tick: 1}
	}
	ago := uint64((age+slack)/m.boot.Interval) + 1
	if ago >= mark.Tick {
		mark.Tick = 1
	} else {
		mark.Tick -= ago
	}
	return mark
}

// mayBeForgotten reports whether a transaction that is not known may have been: its id is from
// before the horizon, or of another incarnation of the cluster. A mark that is ahead of the log
// is of another cluster, and says nothing. Entries of earlier releases, and those of ids that
// only the leader can know, have no mark.
func (m *Machine) mayBeForgotten(id txn.Mark) bool {
	if id.IsZero() {
		return false
	}
	now := m.Mark()
	return id.Epoch != now.Epoch || id.Tick > now.Tick || id.Tick <= uint64(m.RetentionHorizon())
}
