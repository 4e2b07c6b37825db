package web

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/txmgr/txmgr/txn"
)

// Service is the application's side of one service. It does not call the service: the coordinator
// does, when the transaction is committed. A Service is safe for concurrent use.
type Service struct{ name string }

// New returns the Service with the participant's name at the coordinator.
func New(name string) *Service { return &Service{name} }

// Enlist enlists a branch of the service. The payload says what the service is to do; it is sent
// to the service in every phase, and has at most [txn.MaxPayload] bytes.
//
// A service has one branch in a transaction. Enlisting it again with the same payload changes
// nothing; with another payload the error is [txn.ErrConflict].
func (s *Service) Enlist(ctx context.Context, tx *txn.Tx, payload []byte) error {
	_, err := tx.Enlist(ctx, txn.Enlistment{Participant: s.name, Payload: payload})
	return err
}

// EnlistJSON is Enlist with v, encoded as JSON, as the payload.
func (s *Service) EnlistJSON(ctx context.Context, tx *txn.Tx, v any) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%w: payload for %s: %w", txn.ErrInvalid, s.name, err)
	}
	return s.Enlist(ctx, tx, payload)
}
