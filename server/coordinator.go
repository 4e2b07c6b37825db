package server

import (
	"context"
	"iter"

	"github.com/txmgr/txmgr/txn"
)

// Coordinator is what a [Server] serves. Errors are those of package txn. All
// methods are used by many goroutines at once.
type Coordinator interface {
	txn.Manager
	// List looks transactions up by what they are like.
	List(ctx context.Context, f txn.Filter) ([]txn.Info, error)
	// Watch yields changes of state from now on, until ctx ends or an error,
	// which comes last.
	Watch(ctx context.Context, f txn.Filter) iter.Seq2[txn.Event, error]
	// Groups shows the survival index.
	Groups(ctx context.Context) (txn.Groups, error)
	// AddParticipant registers a participant.
	AddParticipant(ctx context.Context, p txn.Participant) error
	// Participants shows the registered participants and their health.
	Participants(ctx context.Context) ([]txn.ParticipantStatus, error)
	// TestParticipant asks a participant whether it can take part.
	TestParticipant(ctx context.Context, name string) error
	// RemoveParticipant takes a registration back.
	RemoveParticipant(ctx context.Context, name string) error
	// Scan compares what is prepared at a participant, or at all of them, with
	// what the coordinator knows, and finishes it when apply is true.
	Scan(ctx context.Context, participant string, apply bool) ([]txn.Finding, error)
	// Doubts lists the transactions that a person may have to look at.
	Doubts(ctx context.Context) ([]txn.Doubt, error)
	// Explain tells all that is known about a transaction, and asks its participants.
	Explain(ctx context.Context, id txn.ID) (txn.Explanation, error)
	// Retry drives a transaction now, whatever its backoff; the zero id means all
	// that are in doubt.
	Retry(ctx context.Context, id txn.ID) error
	// Resolve records a person's word about a transaction in doubt.
	Resolve(ctx context.Context, id txn.ID, r txn.Resolution) (txn.Outcome, error)
	// Forget takes a hazard off a finished transaction.
	Forget(ctx context.Context, id txn.ID, by, reason string) (txn.Outcome, error)
	// Audit lists what people did, oldest first.
	Audit(ctx context.Context, f txn.AuditFilter) ([]txn.AuditRecord, error)
	// Doctor looks for everything that is known to go wrong, at one participant or,
	// when the name is empty, at the coordinator and all participants.
	Doctor(ctx context.Context, participant string) ([]txn.Diagnosis, error)
	// Status shows the node at a glance.
	Status(ctx context.Context) (txn.Status, error)
	// Ready is nil when the node can decide: it knows a leader that can commit.
	Ready() error
}
