package wire

import (
	"fmt"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/txn"
)

// The numbers of a Pipe are those of package txn, which are never renumbered;
// the test of this package holds both to the list in pipe.proto.

// IDFromBytes reads the id of a command; no bytes are the zero id.
func IDFromBytes(b []byte) (id txn.ID, err error) {
	if len(b) != 0 && len(b) != len(id) {
		return id, fmt.Errorf("%w: transaction id has %d bytes; want %d", txn.ErrInvalid, len(b), len(id))
	}
	copy(id[:], b)
	return id, nil
}

// FromOptions gives the command for a begin.
func FromOptions(o txn.Options) *txmgrv1.BeginCall {
	c := &txmgrv1.BeginCall{
		Name: Text(o.Name), Timeout: int64(o.Timeout), Labels: TextMap(o.Labels), MarkEpoch: o.Mark.Epoch, MarkTick: o.Mark.Tick,
	}
	if !o.Session.IsZero() {
		c.Session = o.Session[:]
	}
	for _, e := range o.Branches {
		c.Branches = append(c.Branches, FromEnlistment(e))
	}
	return c
}

// ToOptions reads the command for a begin.
func ToOptions(id txn.ID, c *txmgrv1.BeginCall) (txn.Options, error) {
	o := txn.Options{
		ID: id, Name: c.GetName(), Timeout: time.Duration(c.GetTimeout()), Labels: c.GetLabels(),
		Mark: txn.Mark{Epoch: c.GetMarkEpoch(), Tick: c.GetMarkTick()},
	}
	if n := len(c.GetSession()); n != 0 && n != len(o.Session) {
		return o, fmt.Errorf("%w: session id has %d bytes; want %d", txn.ErrInvalid, n, len(o.Session))
	}
	copy(o.Session[:], c.GetSession())
	if n := len(c.GetBranches()); n > 0 {
		o.Branches = make([]txn.Enlistment, n)
		for i, e := range c.GetBranches() {
			o.Branches[i] = ToEnlistment(e)
		}
	}
	return o, nil
}

// FromEnlistment gives the command for an enlistment.
func FromEnlistment(e txn.Enlistment) *txmgrv1.EnlistCall {
	return &txmgrv1.EnlistCall{Participant: Text(e.Participant), Payload: e.Payload, SessionRef: Text(e.SessionRef), Decides: e.Decides, Revokes: e.Revokes}
}

// ToEnlistment reads the command for an enlistment.
func ToEnlistment(c *txmgrv1.EnlistCall) txn.Enlistment {
	return txn.Enlistment{Participant: c.GetParticipant(), Payload: c.GetPayload(), SessionRef: c.GetSessionRef(), Decides: c.GetDecides(), Revokes: c.GetRevokes()}
}

// FromCommitRequest gives the command for a commit.
func FromCommitRequest(c txn.CommitRequest) *txmgrv1.CommitCall {
	return &txmgrv1.CommitCall{ClientCompletes: c.ClientCompletes, Votes: fromBranchVotes(c.Votes)}
}

func fromBranchVotes(votes []txn.BranchVote) []*txmgrv1.BranchVote {
	if len(votes) == 0 {
		return nil
	}
	all := make([]txmgrv1.BranchVote, len(votes))
	ms := make([]*txmgrv1.BranchVote, len(votes))
	for i, v := range votes {
		all[i].Branch, all[i].Vote = uint32(v.Branch), uint32(v.Vote)
		ms[i] = &all[i]
	}
	return ms
}

// ToCommitRequest reads the command for a commit.
func ToCommitRequest(m *txmgrv1.CommitCall) (txn.CommitRequest, error) {
	votes, err := toBranchVotes(m.GetVotes())
	return txn.CommitRequest{ClientCompletes: m.GetClientCompletes(), Votes: votes}, err
}

func toBranchVotes(ms []*txmgrv1.BranchVote) ([]txn.BranchVote, error) {
	if len(ms) == 0 {
		return nil, nil
	}
	votes := make([]txn.BranchVote, len(ms))
	for i, m := range ms {
		if v := m.GetVote(); v > uint32(txn.VoteNo) && v != uint32(txn.VoteEndedByApplication) {
			return nil, fmt.Errorf("%w: %d is no vote that can be given", txn.ErrInvalid, m.GetVote())
		}
		votes[i] = txn.BranchVote{Branch: txn.BranchID(m.GetBranch()), Vote: txn.Vote(m.GetVote())}
	}
	return votes, nil
}

// FromVotes gives the command for votes.
func FromVotes(b txn.Votes) *txmgrv1.VoteCall {
	return &txmgrv1.VoteCall{ClientCompletes: b.ClientCompletes, Reason: Text(b.Reason), Votes: fromBranchVotes(b.Votes)}
}

// ToVotes reads the command for votes.
func ToVotes(m *txmgrv1.VoteCall) (txn.Votes, error) {
	votes, err := toBranchVotes(m.GetVotes())
	return txn.Votes{ClientCompletes: m.GetClientCompletes(), Reason: m.GetReason(), Votes: votes}, err
}

// FromCompletionReports gives the command for completion reports.
func FromCompletionReports(acks []txn.CompletionReport) *txmgrv1.ReportCompletionCall {
	m := &txmgrv1.ReportCompletionCall{Reports: make([]*txmgrv1.BranchCompletion, len(acks))}
	for i, a := range acks {
		m.Reports[i] = &txmgrv1.BranchCompletion{Branch: uint32(a.Branch), State: uint32(a.State)}
	}
	return m
}

// ToCompletionReports reads the command for completion reports.
func ToCompletionReports(m *txmgrv1.ReportCompletionCall) ([]txn.CompletionReport, error) {
	acks := make([]txn.CompletionReport, len(m.GetReports()))
	for i, a := range m.GetReports() {
		if a.GetState() > uint32(txn.BranchHeuristic) {
			return nil, fmt.Errorf("%w: unknown branch state %d", txn.ErrInvalid, a.GetState())
		}
		acks[i] = txn.CompletionReport{Branch: txn.BranchID(a.GetBranch()), State: txn.BranchState(a.GetState())}
	}
	return acks, nil
}

// FromBeginResult gives the reply to a begin.
func FromBeginResult(b txn.BeginResult) *txmgrv1.BeginReply {
	m := &txmgrv1.BeginReply{
		Id: b.ID[:], Timeout: int64(b.Timeout), SurvivalIndex: b.SurvivalIndex, ExpiryTick: b.ExpiryTick,
		MarkEpoch: b.Mark.Epoch, MarkTick: b.Mark.Tick, Appoints: b.Appoints,
	}
	for _, one := range b.Branches {
		m.Branches = append(m.Branches, FromBranch(one))
	}
	return m
}

// ToBeginResult reads the reply to a begin.
func ToBeginResult(m *txmgrv1.BeginReply) (txn.BeginResult, error) {
	id, err := IDFromBytes(m.GetId())
	if err != nil {
		return txn.BeginResult{}, err
	}
	b := txn.BeginResult{
		ID: id, Timeout: time.Duration(m.GetTimeout()),
		SurvivalIndex: m.GetSurvivalIndex(), ExpiryTick: m.GetExpiryTick(),
		Mark: txn.Mark{Epoch: m.GetMarkEpoch(), Tick: m.GetMarkTick()}, Appoints: m.GetAppoints(),
	}
	for _, one := range m.GetBranches() {
		b.Branches = append(b.Branches, ToBranch(one))
	}
	return b, nil
}

// FromBranch gives the reply to an enlistment.
func FromBranch(b txn.Branch) *txmgrv1.EnlistReply {
	return &txmgrv1.EnlistReply{Id: uint32(b.ID), Participant: Text(b.Participant), Xid: Text(b.XID)}
}

// ToBranch reads the reply to an enlistment.
func ToBranch(m *txmgrv1.EnlistReply) txn.Branch {
	return txn.Branch{ID: txn.BranchID(m.GetId()), Participant: m.GetParticipant(), XID: m.GetXid()}
}

// FromOutcome gives the reply to a call that returns an outcome.
func FromOutcome(o txn.Outcome) *txmgrv1.OutcomeReply {
	return &txmgrv1.OutcomeReply{State: uint32(o.State), Cause: uint32(o.Cause), Heuristic: uint32(o.Heuristic), EndedByApplication: o.EndedByApplication}
}

// ToOutcome reads the reply to a call that returns an outcome.
func ToOutcome(m *txmgrv1.OutcomeReply) (txn.Outcome, error) {
	if m.GetState() > uint32(txn.RolledBack) || m.GetCause() > uint32(txn.CauseOperator) || m.GetHeuristic() > uint32(txn.HeuristicHazard) {
		return txn.Outcome{}, fmt.Errorf("outcome not understood, perhaps from another version of txmgr: state %d, cause %d, heuristic %d",
			m.GetState(), m.GetCause(), m.GetHeuristic())
	}
	return txn.Outcome{
		State: txn.State(m.GetState()), Cause: txn.Cause(m.GetCause()), Heuristic: txn.Heuristic(m.GetHeuristic()), EndedByApplication: m.GetEndedByApplication(),
	}, nil
}
