package machine

import "github.com/txmgr/txmgr/txn"

// Incarnation counts how often the state was restored from a backup.
func (m *Machine) Incarnation() uint64 { return m.incarnation }

// Held reports whether the state was restored from a backup, and nobody has said
// since that all may go on: nothing begins, and whoever drives branches must leave
// them alone, since what was decided after the backup is not known. Time goes on.
func (m *Machine) Held() bool { return m.held }

// Lost reports whether a transaction that is not known here may have been known, and
// decided, in the time between the backup that the state was restored from and the
// moment when it was resumed. made is when the transaction was begun, in milliseconds
// since 1970, by a clock that may differ by slack from that of the leader.
func (m *Machine) Lost(made, slack int64) bool {
	return m.incarnation > 0 && (m.held || made <= m.resumed+slack)
}

// resume lets a restored state go on. It is a repeat when that is said already.
func (m *Machine) resume(c Resume) Result {
	switch {
	case c.Reason == "" || !validNote(c.By, c.Reason):
		return Result{Code: Malformed}
	case m.held:
		m.held, m.resumed = false, m.wall
		m.note(AuditRecord{Action: ActionResume, By: c.By, Reason: c.Reason})
	}
	return Result{}
}

// validNote reports whether a person's name and reason fit the audit trail.
func validNote(by, reason string) bool { return len(by) <= MaxBy && len(reason) <= txn.MaxReason }
