package node

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// timeoutLogger limits the log lines about transactions that timed out, of which there may be
// thousands in a second. docs/operate.md lists all log lines. Only the goroutine that applies
// entries uses it.
type timeoutLogger struct {
	timeouts   *rate.Limiter
	unreported int // transactions that timed out and are not counted in a line yet
}

// timeoutLogBurst is how many lines about timeouts are logged at once; further ones are limited
// to one in a second.
const timeoutLogBurst = 10

func newTimeoutLogger() timeoutLogger {
	return timeoutLogger{timeouts: rate.NewLimiter(rate.Every(time.Second), timeoutLogBurst)}
}

// logApplied logs what operators should know about an applied entry.
func (n *Node) logApplied(index uint64, fx *machine.Effects) {
	one, count := n.recordTimeoutLag(index, fx.Changes)
	l := &n.measured.timeoutLog
	if l.unreported += count; count > 0 && l.timeouts.Allow() {
		n.conf.Logger.Info("transactions timed out: rolled back", "count", l.unreported, "tx", one.String(), "cause", txn.CauseTimeout.String())
		l.unreported = 0
	}
	for _, h := range fx.Heuristics {
		n.conf.Logger.Error("heuristic outcome: a branch ended, or may have ended, otherwise than decided",
			"tx", h.ID.String(), "branch", h.Branch.String(), "participant", h.Participant,
			"heuristic", h.Heuristic.String(), "detail", h.Detail, "hint", "Explain returns what is known of the branches")
	}
	for i := range fx.Audit {
		a := fx.Audit[i].Public()
		args := []any{"action", a.Action, "subject", a.Subject, "by", a.By, "reason", a.Reason}
		if !a.ID.IsZero() {
			args = append(args, "tx", a.ID.String())
		}
		n.conf.Logger.Info("operator acted", args...)
	}
}

// logParticipantHealth logs that a participant is down, or healthy again.
func (n *Node) logParticipantHealth(t recovery.HealthChange) {
	if t.Up {
		n.conf.Logger.Info("participant is up again", "participant", t.Participant, "down", t.Down.Round(time.Millisecond))
		return
	}
	n.conf.Logger.Warn("participant is down: its branches wait and are tried again", "participant", t.Participant, "error", t.Error, "hint", "Doctor checks the participant")
}

// logSwept logs a prepared branch that a sweep found undriven and acted on.
func (n *Node) logSwept(f admin.ScanResult) {
	n.conf.Logger.Warn("sweep: acted on a prepared branch", "participant", f.Participant, "xid", f.XID, "state", f.State, "class", f.Class, "done", f.Done, "error", f.Error)
}

// logLeadershipGained logs that this node has taken over, and the state that it has found.
func (n *Node) logLeadershipGained() {
	var c machine.Counts
	n.fsm.View(func(m *machine.Machine) { c = m.Counts() })
	n.conf.Logger.Info("leadership gained: this node decides", "term", n.terms.latest.Load(), "tick", uint64(n.tick()),
		"undecided", c.Undecided, "completing", c.Completing, "heuristics", c.Heuristics)
}

// logLeadershipLost logs that this node has given up the leadership.
func (n *Node) logLeadershipLost() {
	_, leader := n.raft.LeaderWithID()
	n.conf.Logger.Info("leadership lost: another node decides, or none", "term", n.terms.latest.Load(), "leader", string(leader))
}
