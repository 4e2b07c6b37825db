package server

import (
	"context"
	"io"
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
	// DeadlineGroups shows a part of the survival index.
	DeadlineGroups(ctx context.Context, r txn.DeadlineGroupRange) (txn.DeadlineGroups, error)
	// AddParticipant registers a participant. The audit says who wants it, and why.
	AddParticipant(ctx context.Context, p txn.Participant, by, reason string) error
	// Participants shows the registered participants and their health.
	Participants(ctx context.Context) ([]txn.ParticipantStatus, error)
	// Pools shows how many calls participants get at once, or one does, and the decisions
	// that led there.
	Pools(ctx context.Context, participant string) ([]txn.Pool, error)
	// TestParticipant asks a participant whether it can take part.
	TestParticipant(ctx context.Context, name string) error
	// RemoveParticipant takes a registration back.
	RemoveParticipant(ctx context.Context, name, by, reason string) error
	// Scan compares what is prepared at a participant, or at all of them, with
	// what the coordinator knows, and finishes it when apply is true.
	Scan(ctx context.Context, participant string, apply bool) ([]txn.ScanResult, error)
	// InDoubts lists the transactions that a person may have to look at.
	InDoubts(ctx context.Context) ([]txn.InDoubt, error)
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
	Doctor(ctx context.Context, participant string) ([]txn.Check, error)
	// Status shows the node at a glance.
	Status(ctx context.Context) (txn.Status, error)
	// Ready is nil when calls can be answered here: the node leads, or knows the one
	// that does.
	Ready() error

	// Leader says where calls are decided: here, or at the node whose API has the
	// URL, which is empty when no leader is known, or its URL is not.
	Leader() (api string, here bool)
	// Join adds the node that listens for others at the address.
	Join(ctx context.Context, address, by string) (txn.Member, error)
	// Remove takes a node out of the cluster, for ever. node is an id or a name.
	Remove(ctx context.Context, node, by, reason string) error
	// TransferLeader makes another node lead, any that is up to date when node is
	// empty.
	TransferLeader(ctx context.Context, node string) error
	// Leave takes this node out of the cluster, for ever.
	Leave(ctx context.Context, by string) error
	// Backup writes a copy of the whole state; what it returns describes it.
	Backup(ctx context.Context, w io.Writer) (txn.Backup, error)
	// ResumeRecovery ends the time in which a restored cluster is held.
	ResumeRecovery(ctx context.Context, by, reason string) error

	// CreateToken makes a token and gives its secret, which nobody can see again.
	CreateToken(ctx context.Context, r txn.TokenRequest) (t txn.Token, secret string, err error)
	// Tokens lists all tokens.
	Tokens(ctx context.Context) ([]txn.Token, error)
	// RevokeToken takes a token back, by its id or name.
	RevokeToken(ctx context.Context, token, by, reason string) error
	// OpenSession opens a client's session, or is a sign of life of the one with that id.
	OpenSession(ctx context.Context, o txn.SessionOptions) (txn.ClientSession, error)
	// KeepAlive is a sign of life of a client's session.
	KeepAlive(ctx context.Context, id txn.SessionID) (txn.ClientSession, error)
	// CloseSession ends a client's session, and what is undecided in it.
	CloseSession(ctx context.Context, id txn.SessionID) error
	// Sessions lists clients' sessions.
	Sessions(ctx context.Context, f txn.SessionFilter) ([]txn.ClientSession, error)

	// AuthenticateToken finds the token of a secret, as far as this node knows; false for one
	// that is unknown or has expired. It is called for every request.
	AuthenticateToken(secret string) (txn.Token, bool)
}

// asyncCommitter is a [Coordinator] that needs no goroutine for a commit that waits for votes.
type asyncCommitter interface {
	// CommitAsync calls then, once, with what Commit would return: before it returns, or
	// later, on a goroutine that then must not hold up.
	CommitAsync(ctx context.Context, id txn.ID, c txn.CommitRequest, then func(txn.Outcome, error))
}
