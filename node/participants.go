package node

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/txmgr/txmgr/node/audit"
	"github.com/txmgr/txmgr/node/participants"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// AddParticipant implements [admin.Participants].
func (n adminCalls) AddParticipant(ctx context.Context, p admin.Participant, by, reason string) error {
	if err := p.Check(); err != nil {
		return txn.Wrap("participant add", txn.ID{}, err)
	}
	p, err := n.participants.Verify(ctx, p, n.conf.Logger)
	if err != nil {
		return txn.Wrap("participant add", txn.ID{}, err)
	}
	return n.registerParticipant(ctx, machine.RegisterParticipant{Participant: p, By: audit.Operator(by), Reason: reason})
}

func (n *Node) registerParticipant(ctx context.Context, c machine.RegisterParticipant) error {
	res, err := n.proposals.Propose(ctx, c)
	switch {
	case err != nil:
		return txn.Wrap("participant add", txn.ID{}, err)
	case res.Code == machine.Conflict:
		return &txn.Error{Op: "participant add", Err: txn.ErrConflict, Detail: fmt.Sprintf("%q is registered with another kind; remove it first", c.Participant.Name)}
	case res.Code != machine.OK:
		return res.ToError("participant add", txn.ID{})
	}
	return nil
}

// registerEmbedded registers the participants of this process, in the order of their names.
func (n *Node) registerEmbedded() error {
	for _, name := range slices.Sorted(maps.Keys(n.conf.Participants)) {
		_, prepares := n.conf.Participants[name].(participant.Preparer)
		err := n.registerParticipant(context.Background(), machine.RegisterParticipant{Participant: admin.Participant{Name: name, Kind: participants.EmbeddedKind, CoordinatorPrepares: prepares}})
		if err != nil {
			return err
		}
	}
	return nil
}

// RemoveParticipant implements [admin.Participants].
func (n adminCalls) RemoveParticipant(ctx context.Context, name, by, reason string) error {
	res, err := n.proposals.Propose(ctx, machine.UnregisterParticipant{Name: name, By: audit.Operator(by), Reason: reason})
	switch {
	case err != nil:
		return txn.Wrap("participant remove", txn.ID{}, err)
	case res.Code == machine.NoParticipant:
		return &txn.Error{Op: "participant remove", Err: txn.ErrNotFound, Detail: machine.NotRegistered(name)}
	case res.Code != machine.OK:
		return res.ToError("participant remove", txn.ID{})
	}
	return n.participants.Drop(name)
}

// TestParticipant implements [admin.Participants].
func (n adminCalls) TestParticipant(ctx context.Context, name string) error {
	p, err := n.participants.Get(ctx, name)
	if err == nil {
		err = p.Check(ctx)
	}
	if err != nil {
		return txn.Wrap("participant test", txn.ID{}, fmt.Errorf("participant %q: %w", name, err))
	}
	return nil
}
