package server

import (
	"context"
	"io"
	"iter"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Coordinator is the service that a [Server] exposes. Errors are those of package txn. All
// methods must be safe for concurrent use.
type Coordinator interface {
	txn.Manager
	// List returns the transactions that match a filter.
	List(ctx context.Context, f admin.Filter) ([]txn.Info, error)
	// Watch yields changes of state from now on, until ctx ends or an error occurs, which is
	// the last element.
	Watch(ctx context.Context, f admin.Filter) iter.Seq2[admin.Event, error]
	// DeadlineGroups returns a part of the survival index.
	DeadlineGroups(ctx context.Context, r admin.DeadlineGroupRange) (admin.DeadlineGroups, error)
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
	// Scan compares the prepared branches of a participant, or of all, with what the
	// coordinator knows, and finishes them if apply is true.
	Scan(ctx context.Context, participant string, apply bool) ([]admin.ScanResult, error)
	// InDoubts lists the transactions that may need an operator.
	InDoubts(ctx context.Context) ([]admin.InDoubt, error)
	// Explain returns all that is known about a transaction, including the answers of its
	// participants.
	Explain(ctx context.Context, id txn.ID) (admin.Explanation, error)
	// Retry drives a transaction to completion now, whatever its backoff; the zero id means
	// all that are in doubt.
	Retry(ctx context.Context, id txn.ID) error
	// Resolve records an operator's statement of how branches of a transaction in doubt
	// ended.
	Resolve(ctx context.Context, id txn.ID, r admin.Resolution) (txn.Outcome, error)
	// Forget removes the heuristic outcome of a finished transaction.
	Forget(ctx context.Context, id txn.ID, by, reason string) (txn.Outcome, error)
	// Audit lists the actions of operators, oldest first.
	Audit(ctx context.Context, f admin.AuditFilter) ([]admin.AuditRecord, error)
	// Doctor runs the health checks of one participant or, if the name is empty, of the
	// coordinator and all participants.
	Doctor(ctx context.Context, participant string) ([]admin.Check, error)
	// Status returns the node's status.
	Status(ctx context.Context) (admin.Status, error)
	// Ready returns nil if calls can be answered here: the node leads, or knows the leader.
	Ready() error

	// Leader returns where calls are decided: here is true on the leader; else api is the URL
	// of the leader's API, empty if no leader or no URL of it is known.
	Leader() (api string, here bool)
	// Join adds the node whose peer port is at address.
	Join(ctx context.Context, address, by string) (admin.Member, error)
	// Remove removes a node from the cluster permanently. node is an id or a name.
	Remove(ctx context.Context, node, by, reason string) error
	// TransferLeader hands the leadership to another node; if node is empty, to any that is
	// up to date.
	TransferLeader(ctx context.Context, node string) error
	// Leave removes this node from the cluster permanently.
	Leave(ctx context.Context, by string) error
	// Backup writes a copy of the whole state to w and returns its description.
	Backup(ctx context.Context, w io.Writer) (admin.Backup, error)
	// ResumeRecovery resumes recovery, which is paused after a restore.
	ResumeRecovery(ctx context.Context, by, reason string) error

	// CreateToken creates a token and returns its secret, which cannot be read again.
	CreateToken(ctx context.Context, r admin.TokenRequest) (t admin.Token, secret string, err error)
	// Tokens lists all tokens.
	Tokens(ctx context.Context) ([]admin.Token, error)
	// RevokeToken revokes a token, by its id or name.
	RevokeToken(ctx context.Context, token, by, reason string) error
	// OpenSession opens a client session, or renews it if one with that id is open.
	OpenSession(ctx context.Context, o txn.SessionOptions) (admin.ClientSession, error)
	// KeepAlive renews a client session.
	KeepAlive(ctx context.Context, id txn.SessionID) (admin.ClientSession, error)
	// CloseSession ends a client session and rolls back its undecided transactions.
	CloseSession(ctx context.Context, id txn.SessionID) error
	// Sessions lists the client sessions.
	Sessions(ctx context.Context, f admin.SessionFilter) ([]admin.ClientSession, error)

	// AuthenticateToken returns the token of a secret, as far as this node knows; false if it
	// is unknown or has expired. It is called for every request.
	AuthenticateToken(secret string) (admin.Token, bool)
}

// asyncCommitter is a [Coordinator] that needs no goroutine for a commit that waits for
// votes.
type asyncCommitter interface {
	// CommitAsync calls then exactly once with the results of Commit, either before it
	// returns or later on a goroutine that then must not block.
	CommitAsync(ctx context.Context, id txn.ID, c txn.CommitRequest, then func(txn.Outcome, error))
}
