package admin

import (
	"context"
	"io"

	"github.com/txmgr/txmgr/txn"
)

// Calls are what operators ask of a coordinator: node.Node and client.Client both return them from
// their method Admin. They may be used by any number of goroutines.
//
// Errors are those of package txn. [txn.ErrUnavailable] means that the call may be made again; of
// CreateToken, TransferLeader and Leave it may have been done all the same. [txn.ErrNotFound] means
// that there is no such participant, node, token or transaction. A client can get [txn.ErrDenied].
//
// by names the operator, in at most 128 bytes, and reason says why, in at most 512; the audit log keeps
// both, and both may be empty where that is not excluded. A longer reason is refused; a longer name is
// refused by a server and cut by a node. Where a server knows the caller by a token, the token's name
// takes the place of by.
type Calls interface {
	Cluster
	Participants
	InDoubts
	Tokens
	// DeadlineGroups returns a part of the survival index: the groups that expire at the range's
	// tick or later, in the order of their expiry, at most as many as the range's limit.
	DeadlineGroups(ctx context.Context, r DeadlineGroupRange) (DeadlineGroups, error)
	// Sessions lists client sessions in the order of their ids: the newest ones when there are
	// more than the filter's limit.
	Sessions(ctx context.Context, f SessionFilter) ([]ClientSession, error)
}

// Cluster is about the nodes of the cluster and their state.
type Cluster interface {
	// Status returns the state of the node that is asked. A client with several addresses asks a
	// node that knows the leader, if there is one.
	Status(ctx context.Context) (Status, error)
	// Doctor runs all health checks of one participant or, if the name is empty, of the
	// coordinator and all participants. It changes nothing. A check that cannot be run is a
	// result, not an error.
	Doctor(ctx context.Context, participant string) ([]Check, error)
	// Join adds the node that listens for other nodes at the address: first as a learner, and as
	// a voter once it has caught up. A node that is a member already remains one.
	Join(ctx context.Context, address, by, reason string) (Member, error)
	// Remove removes a node, by its id or name, from the cluster for ever. A leader that is to be
	// removed transfers the leadership first, and returns [txn.ErrUnavailable].
	// [txn.ErrConflict]: the rest would have no quorum.
	Remove(ctx context.Context, node, by, reason string) error
	// TransferLeader makes another node lead: the most up-to-date one when node is empty. It
	// returns when the node does not lead any more. The audit log keeps that it was asked for. A
	// client does not repeat it once it may have arrived: a second execution would transfer the
	// leadership again.
	TransferLeader(ctx context.Context, node, by, reason string) error
	// Leave removes the node that is asked from the cluster for ever. Its process keeps running,
	// and can be stopped. A client with several addresses gets [txn.ErrInvalid].
	Leave(ctx context.Context, by, reason string) error
	// Backup writes a copy of the whole current state to w, and returns its description. It
	// contains everything that was acknowledged before the call, unless [txn.AllowStale] permits
	// the state that the node has. The coordinator keeps serving meanwhile. A client
	// verifies the copy with the server's checksum, and has no time limit as long as there is
	// progress. After an error, what was written is unusable.
	Backup(ctx context.Context, w io.Writer) (Backup, error)
	// ResumeRecovery resumes recovery after a restore: from then on decided transactions are
	// completed, and participants are swept. If recovery is not paused it changes nothing.
	// [txn.ErrInvalid]: no reason was given, or it is too long.
	ResumeRecovery(ctx context.Context, by, reason string) error
}

// Participants is about what is registered to take part in transactions.
type Participants interface {
	// AddParticipant registers a participant, or changes the settings of a known one of the same
	// kind, after checking that it can be opened. Whether the coordinator prepares its branches is
	// detected: it does if the participant is a participant.Preparer. Whether it can take part in
	// transactions, TestParticipant checks.
	AddParticipant(ctx context.Context, p Participant, by, reason string) error
	// Participants lists the registered participants with their health, as the leader sees it. With
	// [txn.AllowStale] a follower may answer, which knows of no failures.
	Participants(ctx context.Context) ([]ParticipantStatus, error)
	// Pools lists the concurrency limit of recovery's calls to a participant, or to each of them
	// when the name is empty, and the decisions that led to it: only the last few of each in the
	// latter case.
	Pools(ctx context.Context, participant string) ([]Pool, error)
	// TestParticipant checks whether a participant can take part in transactions.
	TestParticipant(ctx context.Context, name string) error
	// RemoveParticipant removes a registration. [txn.ErrConflict]: a branch needs it.
	RemoveParticipant(ctx context.Context, name, by, reason string) error
}

// InDoubts is about transactions that do not complete, and about what operators did.
type InDoubts interface {
	// Scan compares the prepared branches of a participant, or of all participants when the name
	// is empty, with the log. With apply it finishes those that it may; without, it also reports
	// which locks they hold, who waits for them, and what other applications have prepared there.
	// When all are scanned, one that cannot be scanned is a result of its own; when one is named,
	// the error.
	Scan(ctx context.Context, participant string, apply bool) ([]ScanResult, error)
	// InDoubts lists the transactions that an operator may have to look at, at most 1,000, oldest
	// first: those with a heuristic outcome that is not forgotten; and those that are decided, or
	// that are delegated and past their deadline, and that have not completed within 5 seconds or
	// had a failed attempt.
	InDoubts(ctx context.Context) ([]InDoubt, error)
	// Explain returns all that is known about a transaction, in any state, and asks its
	// participants for the present state of its branches, each for at most 5 seconds.
	Explain(ctx context.Context, id txn.ID) (Explanation, error)
	// Retry retries the branches of a transaction now, regardless of their backoff; the zero id
	// means all transactions in doubt. If the end of a branch is unknown, its participant is asked
	// once more. [txn.ErrConflict]: the transaction is not decided yet, or no branch is left to
	// retry.
	Retry(ctx context.Context, id txn.ID) error
	// Resolve records how an operator resolved a transaction in doubt. It first asks the
	// participants of the branches concerned: an operator cannot resolve a branch that its
	// participant holds prepared, or whose outcome it can prove.
	//
	// [txn.ErrInvalid]: no reason was given, or it is too long. [txn.ErrConflict]: the
	// participants know the outcome, a branch is not in doubt, or the transaction is not
	// decided and can only be rolled back.
	Resolve(ctx context.Context, id txn.ID, r Resolution) (txn.Outcome, error)
	// Forget removes the heuristic outcome of a finished transaction, whose outcome is kept for
	// the retention time from then on. Without a heuristic outcome there is nothing to forget.
	// [txn.ErrInvalid]: no reason was given. [txn.ErrConflict]: it is not finished.
	Forget(ctx context.Context, id txn.ID, by, reason string) (txn.Outcome, error)
	// Audit lists the actions of operators, oldest first: the newest records that match, of the newest 10,000 that the log keeps.
	Audit(ctx context.Context, f AuditFilter) ([]AuditRecord, error)
}

// Tokens is about who may call the API.
type Tokens interface {
	// CreateToken creates a token, and returns its secret, which is stored nowhere. A client does
	// not repeat it once it may have arrived: the secret of what was created is lost then.
	//
	// [txn.ErrInvalid]: see [TokenRequest.Check], or there are too many. [txn.ErrConflict]: a
	// token has that name, expired or not.
	CreateToken(ctx context.Context, r TokenRequest) (t Token, secret string, err error)
	// Tokens lists all tokens, in the order of their creation, expired ones included.
	Tokens(ctx context.Context) ([]Token, error)
	// RevokeToken revokes a token by its id or, when no token has such an id, by its name. Each
	// node refuses it from the moment on at which it has applied the revocation.
	// [txn.ErrNotFound]: there is no such token.
	RevokeToken(ctx context.Context, token, by, reason string) error
}
