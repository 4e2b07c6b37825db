package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Limits of the audit trail: how many records are kept, and the longest name of an operator, in
// bytes.
const (
	MaxAudit = 10_000
	MaxBy    = 128
)

// AuditAction is an action of an operator. Values are never renumbered.
type AuditAction uint8

const (
	// ActionResolve: said how a transaction, or a branch, ends or has ended.
	ActionResolve AuditAction = iota + 1
	// ActionRollback: decided to roll back, by [txn.CauseOperator].
	ActionRollback
	// ActionForget: forgot the heuristic outcome of a finished transaction.
	ActionForget
	// ActionAddParticipant: registered a participant, or changed its settings.
	ActionAddParticipant
	// ActionRemoveParticipant: removed a registration.
	ActionRemoveParticipant
	// ActionAddToken: made a token.
	ActionAddToken
	// ActionRemoveToken: revoked a token.
	ActionRemoveToken
	// ActionRemoveMember: removed a node from the cluster, for good.
	ActionRemoveMember
	// ActionResume: resumed recovery after a restore from a backup.
	ActionResume
	// ActionAddMember: had a node join the cluster, or had the new address of a member recorded.
	ActionAddMember
	// ActionRequestTransfer: asked for the leadership to be transferred to a node. The record is
	// written by the leader that was asked, before it tries.
	ActionRequestTransfer

	lastAction = ActionRequestTransfer
)

var actionNames = []string{"", "resolve", "rollback", "forget", "participant-add", "participant-remove", "token-add", "token-remove", "member-remove", "resume", "member-add", "leader-transfer-request"}

// String gives the name used in the API, for example "participant-add".
func (a AuditAction) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return fmt.Sprintf("(%d)", uint8(a))
}

// AuditRecord is an action of an operator that changed the state, or the nodes of the cluster.
type AuditRecord struct {
	Seq        uint64 // 1, 2 and so on
	Wall       int64  // leader's wall clock, milliseconds since 1970
	Tick       survival.Tick
	Index      uint64 // the log entry
	Action     AuditAction
	ID         txn.ID          // zero when it is about no transaction
	Branch     txn.BranchID    // of ActionResolve: the one that was named
	Outcome    txn.BranchState // of ActionResolve
	Subject    string          // the name of the participant, the name and id of the token, or the node
	By, Reason string
}

// Public returns the public form.
func (a *AuditRecord) Public() admin.AuditRecord {
	r := admin.AuditRecord{
		Seq: a.Seq, Time: time.UnixMilli(a.Wall).UTC(), Tick: uint64(a.Tick), Index: a.Index, Action: a.Action.String(),
		ID: a.ID, Subject: a.Subject, By: a.By, Reason: a.Reason,
	}
	if a.Branch != 0 {
		r.Branch = a.Branch.String()
		r.Subject = r.Branch
	} else if !a.ID.IsZero() {
		r.Subject = a.ID.String()
	}
	if a.Outcome != 0 {
		r.Subject += " " + a.Outcome.String()
	}
	return r
}

// auditLog is the bounded list of the operators' actions. Its records are never changed and
// their places never used again, so that a reader may keep the slice: a snapshot costs nothing.
type auditLog struct {
	records []AuditRecord
	seq     uint64
}

// appendAudit adds a record to the trail, which forgets the oldest when it is full.
func (m *Machine) appendAudit(a AuditRecord) {
	t := &m.auditLog
	t.seq++
	a.Seq, a.Wall, a.Tick, a.Index = t.seq, m.wall, m.tick, m.entry
	if len(t.records) == MaxAudit {
		t.records = t.records[1:]
	}
	t.records = append(t.records, a)
	m.fx.Audit = append(m.fx.Audit, a)
}

func (m *Machine) recordAction(c RecordAction) Result {
	switch {
	case c.Action != ActionAddMember && c.Action != ActionRequestTransfer:
		return Result{Code: Malformed} // another command carries it out, and records it
	case !validNodeID(c.Subject) || !validAudit(c.By, c.Reason):
		return Result{Code: Malformed}
	}
	m.appendAudit(AuditRecord{Action: c.Action, Subject: c.Subject, By: c.By, Reason: c.Reason})
	return Result{}
}

// all returns the records for a reader, whose appending would not overwrite the log's.
func (t *auditLog) all() []AuditRecord { return slices.Clip(t.records) }

// isRepeat reports whether the same resolution was carried out before.
func (t *auditLog) isRepeat(c *Resolve) bool {
	return slices.ContainsFunc(t.records, func(a AuditRecord) bool {
		return a.Action == ActionResolve && a.ID == c.ID && a.Branch == c.Branch && a.Outcome == c.Outcome &&
			a.By == c.By && a.Reason == c.Reason
	})
}

func (t *auditLog) restore(records []AuditRecord) error {
	if len(records) > MaxAudit {
		return fmt.Errorf("%d audit records; at most %d", len(records), MaxAudit)
	}
	for i := range records {
		a := &records[i]
		if a.Seq == 0 || i > 0 && a.Seq != records[i-1].Seq+1 || a.Action < ActionResolve || a.Action > lastAction {
			return fmt.Errorf("audit record %d has number %d and action %v", i+1, a.Seq, a.Action)
		}
		t.seq = a.Seq
	}
	t.records = slices.Clone(records)
	return nil
}
