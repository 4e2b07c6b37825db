package wire

import (
	"fmt"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/txn"
)

// The numbers of a Pipe are those of package txn, which are never renumbered;
// the test of this package holds both to the list in pipe.proto.

// PipeID reads the id of a command; no bytes are the zero id.
func PipeID(b []byte) (id txn.ID, err error) {
	if len(b) != 0 && len(b) != len(id) {
		return id, fmt.Errorf("%w: transaction id has %d bytes; want %d", txn.ErrInvalid, len(b), len(id))
	}
	copy(id[:], b)
	return id, nil
}

// FromOptions gives the command for a begin.
func FromOptions(o txn.Options) *txmgrv1.BeginCall {
	c := &txmgrv1.BeginCall{
		Name: Text(o.Name), Timeout: int64(o.Timeout), Labels: TextMap(o.Labels), MarkLife: o.Mark.Life, MarkTick: o.Mark.Tick,
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
		Mark: txn.Mark{Life: c.GetMarkLife(), Tick: c.GetMarkTick()},
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
	return &txmgrv1.EnlistCall{Participant: Text(e.Participant), Payload: e.Payload, Session: Text(e.Session)}
}

// ToEnlistment reads the command for an enlistment.
func ToEnlistment(c *txmgrv1.EnlistCall) txn.Enlistment {
	return txn.Enlistment{Participant: c.GetParticipant(), Payload: c.GetPayload(), Session: c.GetSession()}
}

// FromCommitment gives the command for a commit.
func FromCommitment(c txn.Commitment) *txmgrv1.CommitCall {
	return &txmgrv1.CommitCall{OwnPhaseTwo: c.OwnPhaseTwo, Votes: fromVotes(c.Votes)}
}

func fromVotes(votes []txn.BranchVote) []*txmgrv1.BranchVote {
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

// ToCommitment reads the command for a commit.
func ToCommitment(m *txmgrv1.CommitCall) (txn.Commitment, error) {
	votes, err := toVotes(m.GetVotes())
	return txn.Commitment{OwnPhaseTwo: m.GetOwnPhaseTwo(), Votes: votes}, err
}

func toVotes(ms []*txmgrv1.BranchVote) ([]txn.BranchVote, error) {
	if len(ms) == 0 {
		return nil, nil
	}
	votes := make([]txn.BranchVote, len(ms))
	for i, m := range ms {
		if v := m.GetVote(); v > uint32(txn.VoteNo) && v != uint32(txn.VoteEndedByHand) {
			return nil, fmt.Errorf("%w: %d is no vote that can be given", txn.ErrInvalid, m.GetVote())
		}
		votes[i] = txn.BranchVote{Branch: txn.BranchID(m.GetBranch()), Vote: txn.Vote(m.GetVote())}
	}
	return votes, nil
}

// FromBallot gives the command for votes.
func FromBallot(b txn.Ballot) *txmgrv1.VoteCall {
	return &txmgrv1.VoteCall{OwnPhaseTwo: b.OwnPhaseTwo, Reason: Text(b.Reason), Votes: fromVotes(b.Votes)}
}

// ToBallot reads the command for votes.
func ToBallot(m *txmgrv1.VoteCall) (txn.Ballot, error) {
	votes, err := toVotes(m.GetVotes())
	return txn.Ballot{OwnPhaseTwo: m.GetOwnPhaseTwo(), Reason: m.GetReason(), Votes: votes}, err
}

// FromAcks gives the command for acknowledgements.
func FromAcks(acks []txn.Ack) *txmgrv1.DoneCall {
	m := &txmgrv1.DoneCall{Acks: make([]*txmgrv1.BranchAck, len(acks))}
	for i, a := range acks {
		m.Acks[i] = &txmgrv1.BranchAck{Branch: uint32(a.Branch), State: uint32(a.State)}
	}
	return m
}

// ToAcks reads the command for acknowledgements.
func ToAcks(m *txmgrv1.DoneCall) ([]txn.Ack, error) {
	acks := make([]txn.Ack, len(m.GetAcks()))
	for i, a := range m.GetAcks() {
		if a.GetState() > uint32(txn.BranchHazard) {
			return nil, fmt.Errorf("%w: unknown branch state %d", txn.ErrInvalid, a.GetState())
		}
		acks[i] = txn.Ack{Branch: txn.BranchID(a.GetBranch()), State: txn.BranchState(a.GetState())}
	}
	return acks, nil
}

// FromBegun gives the reply to a begin.
func FromBegun(b txn.Begun) *txmgrv1.BeginReply {
	m := &txmgrv1.BeginReply{
		Id: b.ID[:], Timeout: int64(b.Timeout), SurvivalIndex: b.SurvivalIndex, ExpiryTick: b.ExpiryTick,
		MarkLife: b.Mark.Life, MarkTick: b.Mark.Tick,
	}
	for _, one := range b.Branches {
		m.Branches = append(m.Branches, FromBranch(one))
	}
	return m
}

// ToBegun reads the reply to a begin.
func ToBegun(m *txmgrv1.BeginReply) (txn.Begun, error) {
	id, err := PipeID(m.GetId())
	if err != nil {
		return txn.Begun{}, err
	}
	b := txn.Begun{
		ID: id, Timeout: time.Duration(m.GetTimeout()),
		SurvivalIndex: m.GetSurvivalIndex(), ExpiryTick: m.GetExpiryTick(),
		Mark: txn.Mark{Life: m.GetMarkLife(), Tick: m.GetMarkTick()},
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

// FromOutcome gives the reply to whatever answers with an outcome.
func FromOutcome(o txn.Outcome) *txmgrv1.OutcomeReply {
	return &txmgrv1.OutcomeReply{State: uint32(o.State), Cause: uint32(o.Cause), Hazard: uint32(o.Hazard), EndedByHand: o.EndedByHand}
}

// ToOutcome reads the reply to whatever answers with an outcome.
func ToOutcome(m *txmgrv1.OutcomeReply) (txn.Outcome, error) {
	if m.GetState() > uint32(txn.RolledBack) || m.GetCause() > uint32(txn.CauseOperator) || m.GetHazard() > uint32(txn.HazardUnknown) {
		return txn.Outcome{}, fmt.Errorf("outcome not understood, perhaps from another version of txmgr: state %d, cause %d, hazard %d",
			m.GetState(), m.GetCause(), m.GetHazard())
	}
	return txn.Outcome{
		State: txn.State(m.GetState()), Cause: txn.Cause(m.GetCause()), Hazard: txn.Hazard(m.GetHazard()), EndedByHand: m.GetEndedByHand(),
	}, nil
}
