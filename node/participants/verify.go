package participants

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Verify checks a participant that is to be registered: its settings, and that it can be opened. It
// returns it with CoordinatorPrepares as detected.
func (s *Registry) Verify(ctx context.Context, p admin.Participant, log *slog.Logger) (admin.Participant, error) {
	if p.Kind == EmbeddedKind {
		return p, fmt.Errorf("%w: embedded participants are registered by their process", txn.ErrInvalid)
	}
	if err := CheckSettings(p); err != nil {
		return p, err
	}
	opened, err := s.Open(ctx, p)
	if err != nil {
		return p, asInvalid(err)
	}
	_, prepares := opened.(participant.Preparer)
	if err := opened.Close(); err != nil {
		log.Warn("closing a participant after a try", "participant", p.Name, "error", err)
	}
	if p.CoordinatorPrepares && !prepares {
		return p, fmt.Errorf("%w: participant %q: the coordinator cannot ask kind %q for votes: the application prepares there", txn.ErrInvalid, p.Name, p.Kind)
	}
	p.CoordinatorPrepares = prepares
	return p, nil
}

// asInvalid marks an error as [txn.ErrInvalid], unless it has a more specific code.
func asInvalid(err error) error {
	if txn.CodeOf(err) != txn.CodeError {
		return err
	}
	return fmt.Errorf("%w: %w", txn.ErrInvalid, err)
}
