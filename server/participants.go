package server

import (
	"context"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn/admin"
)

// Participants are the calls of the ParticipantService.
type Participants interface {
	// AddParticipant registers a participant. The audit log records by and reason.
	AddParticipant(ctx context.Context, p admin.Participant, by, reason string) error
	// Participants lists the registered participants and their health.
	Participants(ctx context.Context) ([]admin.ParticipantStatus, error)
	// Pools returns the concurrency limits of one participant, or of all, and the decisions
	// that led to them.
	Pools(ctx context.Context, participant string) ([]admin.Pool, error)
	// TestParticipant checks whether a participant can take part in transactions.
	TestParticipant(ctx context.Context, name string) error
	// RemoveParticipant unregisters a participant.
	RemoveParticipant(ctx context.Context, name, by, reason string) error
}

// participantService is the ParticipantService.
type participantService struct{ c Participants }

func (p *participantService) Add(ctx context.Context, r *txmgrv1.AddRequest) (*txmgrv1.AddResponse, error) {
	by := actor(ctx, r.GetBy())
	if err := checkAuditText(by, r.GetReason()); err != nil {
		return nil, err
	}
	return &txmgrv1.AddResponse{}, p.c.AddParticipant(ctx, wire.ToParticipant(r), by, r.GetReason())
}

func (p *participantService) List(ctx context.Context, _ *txmgrv1.ListParticipantsRequest) (*txmgrv1.ListParticipantsResponse, error) {
	ps, err := p.c.Participants(ctx)
	return &txmgrv1.ListParticipantsResponse{Participants: wire.FromParticipants(ps)}, err
}

func (p *participantService) Test(ctx context.Context, r *txmgrv1.TestRequest) (*txmgrv1.TestResponse, error) {
	return &txmgrv1.TestResponse{}, p.c.TestParticipant(ctx, r.GetName())
}

func (p *participantService) Pools(ctx context.Context, r *txmgrv1.PoolsRequest) (*txmgrv1.PoolsResponse, error) {
	ps, err := p.c.Pools(ctx, r.GetParticipant())
	return wire.FromPools(ps), err
}

func (p *participantService) Remove(ctx context.Context, r *txmgrv1.RemoveRequest) (*txmgrv1.RemoveResponse, error) {
	by := actor(ctx, r.GetBy())
	if err := checkAuditText(by, r.GetReason()); err != nil {
		return nil, err
	}
	return &txmgrv1.RemoveResponse{}, p.c.RemoveParticipant(ctx, r.GetName(), by, r.GetReason())
}
