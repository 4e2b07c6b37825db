package machine

import "github.com/txmgr/txmgr/txn"

// Incarnation counts how often the state was restored from a backup.
func (m *Machine) Incarnation() uint64 { return m.incarnation }

// RecoveryPaused reports whether the state was restored from a backup and no operator has
// resumed recovery since. While it is true no transaction begins and no branch may be driven,
// since decisions made after the backup are not known. Ticks go on.
func (m *Machine) RecoveryPaused() bool { return m.recoveryPaused }

// MayPredateBackup reports whether a transaction that is not known here may have been known,
// and decided, in the time between the backup that the state was restored from and the moment
// when it was resumed. made is when the transaction was begun, in milliseconds since 1970, by a
// clock that may differ by slack from that of the leader.
func (m *Machine) MayPredateBackup(made, slack int64) bool {
	return m.incarnation > 0 && (m.recoveryPaused || made <= m.resumedAt+slack)
}

// MarkRestored marks a transaction of a backup that is being restored. One that is rolled back there
// was not committed later, and is not marked; nor is one that needs no more work.
func (t *Transaction) MarkRestored() {
	switch {
	case t.State == txn.RollingBack, t.State == txn.RolledBack, t.State == txn.Committed && t.Heuristic == 0:
	default:
		t.BeforeRestore = true
	}
}

// resumeRecovery resumes recovery in a restored state. It is a repeat when that was done
// already.
func (m *Machine) resumeRecovery(c ResumeRecovery) Result {
	switch {
	case c.Reason == "" || !validAudit(c.By, c.Reason):
		return Result{Code: Malformed}
	case m.recoveryPaused:
		m.recoveryPaused, m.resumedAt = false, m.wall
		m.appendAudit(AuditRecord{Action: ActionResume, By: c.By, Reason: c.Reason})
	}
	return Result{}
}

// validAudit reports whether an operator's name and reason fit the audit trail.
func validAudit(by, reason string) bool { return len(by) <= MaxBy && len(reason) <= txn.MaxReason }
