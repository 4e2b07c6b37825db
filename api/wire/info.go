package wire

import (
	"fmt"
	"math"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// FromInfo gives the message for a transaction.
func FromInfo(i txn.Info) *txmgrv1.Transaction {
	t := &txmgrv1.Transaction{
		Id:                   formatID(i.ID),
		Name:                 Text(i.Name),
		State:                i.State.String(),
		Cause:                i.Cause.String(),
		Reason:               Text(i.Reason),
		Heuristic:            i.Heuristic.String(),
		Timeout:              formatDuration(time.Duration(i.Timeout)),
		Began:                formatTime(i.Began),
		ExpiresIn:            formatDuration(time.Duration(i.ExpiresIn)),
		SurvivalIndex:        i.SurvivalIndex,
		RemainingInvocations: i.RemainingInvocations,
		ExpiryTick:           i.ExpiryTick,
		Labels:               TextMap(i.Labels),
		Decided:              optional(formatTime(i.Decided)),
		DecidedTick:          optional(i.DecidedTick),
		DecidedIndex:         optional(i.DecidedIndex),
		Branches:             make([]*txmgrv1.BranchInfo, len(i.Branches)),
		Session:              optional(FormatSession(i.Session)),
	}
	for n, b := range i.Branches {
		t.Branches[n] = &txmgrv1.BranchInfo{
			Id:          b.ID.String(),
			Participant: Text(b.Participant),
			Kind:        Text(b.Kind),
			Xid:         Text(b.XID),
			Vote:        b.Vote.String(),
			State:       b.State.String(),
			Attempts:    int64(b.Attempts),
			LastError:   Text(b.LastError),
			NextTryIn:   formatDuration(time.Duration(b.NextTry)),
			Heuristic:   optional(b.Heuristic.String()),
			Detail:      optional(Text(b.Detail)),
		}
	}
	return t
}

// ToInfo reads the message for a transaction.
func ToInfo(t *txmgrv1.Transaction) (txn.Info, error) {
	var r fieldReader
	i := txn.Info{
		ID:                   r.id("id", t.GetId()),
		Name:                 t.GetName(),
		Reason:               t.GetReason(),
		Timeout:              r.duration("timeout", t.GetTimeout()),
		Began:                r.time("began", t.GetBegan()),
		ExpiresIn:            r.duration("expires_in", t.GetExpiresIn()),
		SurvivalIndex:        t.GetSurvivalIndex(),
		RemainingInvocations: t.GetRemainingInvocations(),
		ExpiryTick:           t.GetExpiryTick(),
		Labels:               emptyIfNil(t.GetLabels()),
		Decided:              r.time("decided", t.GetDecided()),
		DecidedTick:          t.GetDecidedTick(),
		DecidedIndex:         t.GetDecidedIndex(),
		Branches:             make([]txn.BranchInfo, len(t.GetBranches())),
		Session:              r.sessionID("session", t.GetSession()),
	}
	r.enum("state", t.GetState(), &i.State)
	r.enum("cause", t.GetCause(), &i.Cause)
	r.enum("heuristic", t.GetHeuristic(), &i.Heuristic)
	for n, b := range t.GetBranches() {
		i.Branches[n] = txn.BranchInfo{
			ID:          r.branch("branches.id", b.GetId()),
			Name:        b.GetId(),
			Participant: b.GetParticipant(),
			Kind:        b.GetKind(),
			XID:         b.GetXid(),
			Attempts:    int(b.GetAttempts()),
			LastError:   b.GetLastError(),
			Detail:      b.GetDetail(),
			NextTry:     r.duration("branches.next_try_in", b.GetNextTryIn()),
		}
		r.enum("branches.vote", b.GetVote(), &i.Branches[n].Vote)
		r.enum("branches.state", b.GetState(), &i.Branches[n].State)
		r.enum("branches.heuristic", b.GetHeuristic(), &i.Branches[n].Heuristic)
	}
	return i, r.decodeError("transaction")
}

// FromEvent gives the message for an event.
func FromEvent(e admin.Event) *txmgrv1.Event {
	return &txmgrv1.Event{
		Id: formatID(e.ID), Name: Text(e.Name), State: e.State.String(), Cause: e.Cause.String(),
		Heuristic: e.Heuristic.String(), Tick: e.Tick, Time: formatTime(e.Time),
	}
}

// ToEvent reads the message for an event.
func ToEvent(m *txmgrv1.Event) (admin.Event, error) {
	var r fieldReader
	e := admin.Event{ID: r.id("id", m.GetId()), Name: m.GetName(), Tick: m.GetTick(), Time: r.time("time", m.GetTime())}
	r.enum("state", m.GetState(), &e.State)
	r.enum("cause", m.GetCause(), &e.Cause)
	r.enum("heuristic", m.GetHeuristic(), &e.Heuristic)
	return e, r.decodeError("event")
}

// FromFilter gives the message for a filter.
func FromFilter(f admin.Filter) *txmgrv1.Filter {
	m := &txmgrv1.Filter{
		Participant:   Text(f.Participant),
		OlderThan:     formatDuration(f.OlderThan),
		ExpiresWithin: formatDuration(f.ExpiresWithin),
		Labels:        TextMap(f.Labels),
		Prefix:        Text(f.Prefix),
		Limit:         int32(min(max(f.Limit, math.MinInt32), math.MaxInt32)),
	}
	if !f.Before.IsZero() {
		m.Before = f.Before.String()
	}
	for _, s := range f.States {
		m.States = append(m.States, s.String())
	}
	return m
}

// ToFilter reads the message for a filter. Errors are [txn.ErrInvalid].
func ToFilter(m *txmgrv1.Filter) (admin.Filter, error) {
	older, err := ParseDuration("older_than", m.GetOlderThan())
	if err != nil {
		return admin.Filter{}, err
	}
	within, err := ParseDuration("expires_within", m.GetExpiresWithin())
	if err != nil {
		return admin.Filter{}, err
	}
	if m.GetLimit() < 0 {
		return admin.Filter{}, fmt.Errorf("%w: limit %d is negative", txn.ErrInvalid, m.GetLimit())
	}
	f := admin.Filter{
		Participant: m.GetParticipant(), OlderThan: older, ExpiresWithin: within,
		Labels: m.GetLabels(), Prefix: m.GetPrefix(), Limit: int(m.GetLimit()),
	}
	if m.GetBefore() != "" {
		if f.Before, err = txn.ParseID(m.GetBefore()); err != nil {
			return admin.Filter{}, err
		}
	}
	for _, name := range m.GetStates() {
		s, err := txn.ParseState(name)
		if err == nil && s == 0 {
			err = fmt.Errorf("%w: a state of the filter is empty", txn.ErrInvalid)
		}
		if err != nil {
			return admin.Filter{}, err
		}
		f.States = append(f.States, s)
	}
	return f, nil
}

func formatID(id txn.ID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// decodeError is the error of a message that could not be decoded.
func (r *fieldReader) decodeError(what string) error {
	if r.err == nil {
		return nil
	}
	return fmt.Errorf("%s not understood, perhaps from another version of txmgr: %w", what, r.err)
}
