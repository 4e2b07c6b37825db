package wire

import (
	"fmt"
	"math"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// FromAuditFilter gives the message for a filter of audit records.
func FromAuditFilter(f admin.AuditFilter) *txmgrv1.AuditRequest {
	return &txmgrv1.AuditRequest{
		Id: formatID(f.ID), Since: formatDuration(f.Since), Limit: int32(min(max(f.Limit, math.MinInt32), math.MaxInt32)),
	}
}

// ToAuditFilter reads the message for a filter of audit records. Errors are
// [txn.ErrInvalid].
func ToAuditFilter(m *txmgrv1.AuditRequest) (f admin.AuditFilter, err error) {
	if m.GetId() != "" {
		if f.ID, err = txn.ParseID(m.GetId()); err != nil {
			return admin.AuditFilter{}, err
		}
	}
	if f.Since, err = ParseDuration("since", m.GetSince()); err != nil {
		return admin.AuditFilter{}, err
	}
	if m.GetLimit() < 0 {
		return admin.AuditFilter{}, fmt.Errorf("%w: limit %d is negative", txn.ErrInvalid, m.GetLimit())
	}
	f.Limit = int(m.GetLimit())
	return f, nil
}

// FromAudit gives the message for audit records.
func FromAudit(as []admin.AuditRecord) *txmgrv1.AuditResponse {
	return &txmgrv1.AuditResponse{Records: fromAudit(as)}
}

func fromAudit(as []admin.AuditRecord) []*txmgrv1.AuditRecord {
	ms := make([]*txmgrv1.AuditRecord, len(as))
	for n, a := range as {
		ms[n] = &txmgrv1.AuditRecord{
			Seq: a.Seq, Time: formatTime(a.Time), Tick: a.Tick, Index: a.Index, Action: Text(a.Action),
			Id: optional(formatID(a.ID)), Branch: optional(Text(a.Branch)), Subject: Text(a.Subject), By: Text(a.By), Reason: Text(a.Reason),
		}
	}
	return ms
}

// ToAudit reads the message for audit records.
func ToAudit(m *txmgrv1.AuditResponse) ([]admin.AuditRecord, error) {
	var r fieldReader
	as := r.audit(m.GetRecords())
	return as, r.decodeError("audit records")
}

func (r *fieldReader) audit(ms []*txmgrv1.AuditRecord) []admin.AuditRecord {
	as := make([]admin.AuditRecord, len(ms))
	for n, m := range ms {
		as[n] = admin.AuditRecord{
			Seq: m.GetSeq(), Time: r.time("audit.time", m.GetTime()), Tick: m.GetTick(), Index: m.GetIndex(), Action: m.GetAction(),
			ID: r.id("audit.id", m.GetId()), Branch: m.GetBranch(), Subject: m.GetSubject(), By: m.GetBy(), Reason: m.GetReason(),
		}
	}
	return as
}

// FromChecks gives the message for the results of health checks.
func FromChecks(ds []admin.Check) *txmgrv1.DoctorResponse {
	m := &txmgrv1.DoctorResponse{Checks: make([]*txmgrv1.Check, len(ds))}
	for n, d := range ds {
		m.Checks[n] = &txmgrv1.Check{
			Participant: Text(d.Participant), Level: Text(d.Level), Subject: Text(d.Subject), Message: Text(d.Message), Remedy: Text(d.Remedy),
			Call: optional(Text(d.Call)), CallParticipant: optional(Text(d.CallParticipant)),
		}
	}
	return m
}

// ToChecks reads the message for the results of health checks.
func ToChecks(m *txmgrv1.DoctorResponse) []admin.Check {
	ds := make([]admin.Check, len(m.GetChecks()))
	for n, d := range m.GetChecks() {
		ds[n] = admin.Check{
			Participant: d.GetParticipant(), Level: d.GetLevel(), Subject: d.GetSubject(), Message: d.GetMessage(), Remedy: d.GetRemedy(),
			Call: d.GetCall(), CallParticipant: d.GetCallParticipant(),
		}
	}
	return ds
}
