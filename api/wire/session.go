package wire

import (
	"fmt"
	"math"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// FormatSession gives the text form of a session's id, which is empty for the zero id.
func FormatSession(id txn.SessionID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// ToSessionID reads the id of a session; the empty text gives the zero id. Errors are
// [txn.ErrInvalid].
func ToSessionID(s string) (txn.SessionID, error) {
	if s == "" {
		return txn.SessionID{}, nil
	}
	return txn.ParseSessionID(s)
}

// FromSessionOptions gives the message that asks for a session.
func FromSessionOptions(o txn.SessionOptions) *txmgrv1.OpenSessionRequest {
	return &txmgrv1.OpenSessionRequest{Id: FormatSession(o.ID), Name: Text(o.Name), Ttl: formatDuration(o.TTL)}
}

// ToSessionOptions reads the message that asks for a session. Errors are [txn.ErrInvalid].
func ToSessionOptions(m *txmgrv1.OpenSessionRequest) (o txn.SessionOptions, err error) {
	o.Name = m.GetName()
	if o.ID, err = ToSessionID(m.GetId()); err != nil {
		return o, err
	}
	if o.TTL, err = ParseDuration("ttl", m.GetTtl()); err != nil {
		return o, err
	}
	if o.TTL == 0 && m.GetTtl() != "" {
		return o, fmt.Errorf("%w: ttl %q: leave it out for the default, or give at least %v", txn.ErrInvalid, excerpt(m.GetTtl()), txn.MinSessionTTL)
	}
	return o, o.Check()
}

// FromSession gives the message for a client's session.
func FromSession(s admin.ClientSession) *txmgrv1.Session {
	return &txmgrv1.Session{
		Id: FormatSession(s.ID), Name: Text(s.Name), State: s.State.String(), Ttl: formatDuration(time.Duration(s.TTL)),
		Opened: formatTime(s.Opened), Transactions: int64(s.Transactions), EndedTick: optional(s.EndedTick),
	}
}

// ToSession reads the message for a client's session.
func ToSession(m *txmgrv1.Session) (admin.ClientSession, error) {
	var r fieldReader
	s := r.clientSession(m)
	return s, r.decodeError("session")
}

func (r *fieldReader) clientSession(m *txmgrv1.Session) admin.ClientSession {
	s := admin.ClientSession{
		ID: r.sessionID("session.id", m.GetId()), Name: m.GetName(), TTL: r.duration("session.ttl", m.GetTtl()),
		Opened: r.time("session.opened", m.GetOpened()), Transactions: int(m.GetTransactions()), EndedTick: m.GetEndedTick(),
	}
	r.enum("session.state", m.GetState(), &s.State)
	return s
}

// FromSessions gives the message for clients' sessions.
func FromSessions(all []admin.ClientSession) *txmgrv1.ListSessionsResponse {
	m := &txmgrv1.ListSessionsResponse{Sessions: make([]*txmgrv1.Session, len(all))}
	for n, s := range all {
		m.Sessions[n] = FromSession(s)
	}
	return m
}

// ToSessions reads the message for clients' sessions.
func ToSessions(m *txmgrv1.ListSessionsResponse) ([]admin.ClientSession, error) {
	var r fieldReader
	all := make([]admin.ClientSession, len(m.GetSessions()))
	for n, s := range m.GetSessions() {
		all[n] = r.clientSession(s)
	}
	return all, r.decodeError("sessions")
}

// FromSessionFilter gives the message that asks for clients' sessions.
func FromSessionFilter(f admin.SessionFilter) *txmgrv1.ListSessionsRequest {
	return &txmgrv1.ListSessionsRequest{Ended: f.Ended, Limit: int32(min(max(f.Limit, math.MinInt32), math.MaxInt32))}
}

// ToSessionFilter reads the message that asks for clients' sessions. Errors are [txn.ErrInvalid].
func ToSessionFilter(m *txmgrv1.ListSessionsRequest) (admin.SessionFilter, error) {
	if m.GetLimit() < 0 {
		return admin.SessionFilter{}, fmt.Errorf("%w: limit %d is negative", txn.ErrInvalid, m.GetLimit())
	}
	return admin.SessionFilter{Ended: m.GetEnded(), Limit: int(m.GetLimit())}, nil
}

func (r *fieldReader) sessionID(field, s string) txn.SessionID {
	id, err := ToSessionID(s)
	r.fail(field, err)
	return id
}
