package web

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/txmgr/txmgr/txn"
)

// Service is the application's side of one service. It calls nobody: the
// coordinator calls the service when the transaction is committed. Safe for
// concurrent use.
type Service struct{ name string }

// New gives the service with the participant's name at the coordinator.
func New(name string) *Service { return &Service{name} }

// Enlist makes the service take part in the transaction. The payload says what it
// is to do; it is given to the service in every phase, and is at most
// [txn.MaxPayload] bytes.
//
// A service has one branch in a transaction. Enlisting it again with the same
// payload changes nothing, with another one is [txn.ErrConflict].
func (s *Service) Enlist(ctx context.Context, tx *txn.Tx, payload []byte) error {
	_, err := tx.Enlist(ctx, txn.Enlistment{Participant: s.name, Payload: payload})
	return err
}

// EnlistJSON is Enlist with v as JSON for the payload.
func (s *Service) EnlistJSON(ctx context.Context, tx *txn.Tx, v any) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%w: payload for %s: %w", txn.ErrInvalid, s.name, err)
	}
	return s.Enlist(ctx, tx, payload)
}
