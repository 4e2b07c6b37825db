package machine

import (
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Entry is one entry of the log: what the machine applies as a whole.
type Entry struct {
	// Tick is the leader's count of invocations when it proposed the entry. A tick before the
	// machine's own does not move it.
	Tick survival.Tick
	// Wall is the leader's wall clock in milliseconds since 1970: for display only, nothing is
	// decided by it.
	Wall     int64
	Commands []Command
	// Index is the entry's place in the log. It is not part of the entry: it is filled in where
	// the entry is applied. For display only.
	Index uint64
}

// Command is one of the types below. A command that cannot be carried out is
// refused with a [Code] and changes nothing.
type Command interface{ command() }

// Bootstrap is the first command of a cluster. Its values never change afterwards.
type Bootstrap struct {
	Cluster   string        // cluster id, part of every XID
	Interval  time.Duration // between two invocations of the timeout thread
	Retention time.Duration // how long finished outcomes are retained, in ticks of Interval
	Retain    uint64        // of more outcomes than these the oldest are dropped before their time, step by step
}

// Label is a key and its value.
type Label struct{ Key, Value string }

// Begin makes a transaction. Labels are sorted by key, each key once.
type Begin struct {
	ID       txn.ID
	Name     string
	Timeout  time.Duration
	Survival uint64        // the survival index computed by the leader
	Expiry   survival.Tick // the leader's tick plus Survival
	Labels   []Label
	Branches []Branch      // at most one per participant
	Session  txn.SessionID // of the client, whose expiry ends the transaction; zero for none
	// Mark is the mark of the id. It is zero when only the leader knows the id, so that the
	// command cannot be repeated, and in entries of earlier releases.
	Mark txn.Mark
}

// Branch describes a branch to enlist.
type Branch struct {
	Participant string
	Payload     []byte
	SessionRef  string
	// Decides appoints the branch, which is the transaction's only one and is prepared by the application: its end is the
	// decision. It is looked at when the branch is new.
	Decides bool
	// Revokes, in an [Enlist], says that no branch of the transaction decides by its own end any more.
	Revokes bool
}

// Enlist adds a branch to an active transaction, or gives a known one another session
// reference. While a branch is appointed, only an enlistment that revokes that adds another. A reference that was replaced is never valid again: a copy of its enlistment that
// arrives late is refused.
type Enlist struct {
	ID     txn.ID
	Branch Branch
	// Legacy marks a command of earlier releases, which recorded the last one to arrive: a
	// replay has to do so again.
	Legacy bool
}

// Commit adds votes and decides: to commit when every vote is a yes, to roll back when one is a
// no. When votes of participants are missing that the coordinator prepares, the transaction
// becomes preparing.
type Commit struct {
	ID              txn.ID
	Votes           []txn.BranchVote
	ClientCompletes bool
}

// Vote adds votes without requesting a decision. A preparing transaction is decided when no
// vote is missing; a no decides at once. An appointed branch has one vote only, a no: its application has rolled it back.
type Vote struct {
	ID              txn.ID
	Votes           []txn.BranchVote
	ClientCompletes bool
	Reason          string // of a no
}

// EndedByApplication says that statements of the application's own have ended a branch
// ([txn.VoteEndedByApplication]). It decides an undecided transaction to roll back, unless that is the
// only branch and the decision is delegated to it: then its end still has to be found out. Any other
// decision stays, and the fact is recorded: no caller may be told any more that surely nothing
// was applied.
type EndedByApplication struct {
	ID     txn.ID
	Branch txn.BranchID
	Reason string
}

// Delegate leaves the decision of an active transaction to its only branch, which has not
// voted, was enlisted from one connection only, and is prepared by the application. The
// transaction becomes preparing, its deadline decides nothing any more, and the branch's end is
// the decision, reported by [ReportCompletion], or by [ReportHeuristic] when it is unknown.
type Delegate struct {
	ID     txn.ID
	Branch txn.BranchID
}

// Rollback decides to roll back. A transaction whose branch is appointed becomes preparing instead, until the end of the
// branch has been found out and reported.
type Rollback struct {
	ID     txn.ID
	Cause  txn.Cause
	Reason string
}

// Extend moves the deadline of an active transaction to a later tick.
type Extend struct {
	ID       txn.ID
	Timeout  time.Duration
	Survival uint64
	Expiry   survival.Tick
}

// ReportCompletion reports that branches ended as decided.
type ReportCompletion struct {
	ID      txn.ID
	Reports []txn.CompletionReport
}

// ReportHeuristic records that a branch ended, or may have ended, otherwise than decided. A
// proof (any but HeuristicHazard) is taken also against a branch that has been confirmed, as
// long as the outcome is retained.
type ReportHeuristic struct {
	ID        txn.ID
	Branch    txn.BranchID
	Heuristic txn.Heuristic // HeuristicCommit, HeuristicRollback or HeuristicHazard
	Detail    string
	// Legacy marks a command of earlier releases, which was refused once the branch had ended:
	// a replay has to refuse it again.
	Legacy bool
}

// Resolve is the statement of an operator: it rolls an undecided transaction back, or says of a decided one how branches
// ended whose end cannot be found out otherwise, or, with Decides, how the branch ended whose end decides. The same
// statement again is a repeat, and changes nothing.
type Resolve struct {
	ID      txn.ID
	Branch  txn.BranchID // zero: all that are unfinished or whose end is unknown
	Outcome txn.BranchState
	By      string // at most MaxBy bytes
	Reason  string // required
	// Undecided says that the operator saw an undecided transaction, and wants it rolled back.
	// When it has been decided to commit meanwhile, the command says nothing about how its
	// branches ended, and is refused.
	Undecided bool
	// Decides says that the operator saw a delegated transaction whose deadline had passed, or the end of whose appointed
	// branch was being found out: the stated end decides, and HeuristicHazard says that it is not proved. Not with Undecided.
	Decides bool
}

// Forget removes the heuristic outcome of a finished transaction, for the given reason.
type Forget struct {
	ID     txn.ID
	By     string
	Reason string
}

// AddParticipant is [RegisterParticipant] of earlier releases: its audit record names neither
// the operator nor the change.
type AddParticipant struct{ Participant admin.Participant }

// RemoveParticipant is [UnregisterParticipant] of earlier releases: its audit record does not
// name the operator.
type RemoveParticipant struct{ Name string }

// RegisterParticipant registers a participant, or changes the settings of a known one of the
// same kind. Audited, with the changes; the same settings again change nothing.
type RegisterParticipant struct {
	Participant admin.Participant
	By, Reason  string
}

// UnregisterParticipant removes a registration; refused while a branch needs it. Audited.
type UnregisterParticipant struct{ Name, By, Reason string }

// SetMember records what a node of the cluster reports about itself. Refused with Conflict for
// a node that was removed: its id is never used again.
type SetMember struct{ Member Member }

// Member is what the log knows of a node; raft knows which nodes take part.
type Member struct {
	Node    string // its id
	Name    string // for display
	API     string // the URL for clients
	Version string
}

// RemoveMember removes a node for good. Audited.
type RemoveMember struct{ Node, By, Reason string }

// AddToken makes a token, of which only the secret's hash is known. Audited. The same token
// again is a repeat; another one with the same id is a Conflict.
type AddToken struct {
	ID      string
	Name    string
	Role    admin.Role
	Hash    [32]byte // SHA-256 of the secret
	Rate    uint32
	Expires int64 // wall clock, milliseconds since 1970; 0 means never
	By      string
	Reason  string // for the audit trail only
}

// RemoveToken revokes a token. Audited.
type RemoveToken struct{ ID, By, Reason string }

// RecordAction adds an operator's action to the audit trail, and changes nothing else: it is for
// what raft carries out, [ActionAddMember] and [ActionRequestTransfer]. The same again is another
// record.
type RecordAction struct {
	Action     AuditAction
	Subject    string // the id of the node
	By, Reason string
}

// ResumeRecovery resumes recovery in a restored cluster. Audited.
type ResumeRecovery struct{ By, Reason string }

// OpenSession makes a client session. The same again is a repeat.
type OpenSession struct {
	ID   txn.SessionID
	Name string
	TTL  time.Duration // the granted time to live; the machine does not count it
}

// CloseSession ends a session at the client's request. Its undecided transactions are rolled
// back with [txn.CauseClient].
type CloseSession struct{ ID txn.SessionID }

// ExpireSessions ends sessions that were not renewed. Their undecided transactions are rolled
// back with [txn.CauseSessionExpired]. Sessions that are not open are skipped.
type ExpireSessions struct{ IDs []txn.SessionID } // at most MaxExpire

func (OpenSession) command()           {}
func (CloseSession) command()          {}
func (ExpireSessions) command()        {}
func (SetMember) command()             {}
func (RemoveMember) command()          {}
func (AddToken) command()              {}
func (RemoveToken) command()           {}
func (RecordAction) command()          {}
func (ResumeRecovery) command()        {}
func (Bootstrap) command()             {}
func (Begin) command()                 {}
func (Enlist) command()                {}
func (Commit) command()                {}
func (Vote) command()                  {}
func (Delegate) command()              {}
func (EndedByApplication) command()    {}
func (Resolve) command()               {}
func (Rollback) command()              {}
func (Extend) command()                {}
func (ReportCompletion) command()      {}
func (ReportHeuristic) command()       {}
func (Forget) command()                {}
func (AddParticipant) command()        {}
func (RemoveParticipant) command()     {}
func (RegisterParticipant) command()   {}
func (UnregisterParticipant) command() {}

// Code is the result code of a command. It is part of the replicated result: the same on every
// replica and at every retry. Values are never renumbered.
type Code uint8

const (
	// OK: carried out, or carried out before with the same meaning.
	OK Code = iota
	// NotBootstrapped: the cluster has no configuration yet.
	NotBootstrapped
	// NotFound: no such transaction; it may have been forgotten.
	NotFound
	// NoParticipant: no such participant is registered.
	NoParticipant
	// NoBranch: the transaction has no such branch.
	NoBranch
	// Decided: the transaction is decided in a way that excludes the command;
	// Result.State and Cause say how.
	Decided
	// Undecided: the command needs a decision first.
	Undecided
	// Conflict: the same name was used before with other contents.
	Conflict
	// MissingVote: Result.Branch has not voted and its participant is prepared
	// by the application.
	MissingVote
	// BadVote: the vote contradicts an earlier one of Result.Branch, or the
	// branch is unknown.
	BadVote
	// BadCompletion: the completion report contradicts the decision or an earlier report.
	BadCompletion
	// TooMany: the transaction has the most branches it may have, or the cluster
	// the most participants.
	TooMany
	// InUse: branches still need the participant.
	InUse
	// Malformed: a field is outside what the machine accepts.
	Malformed
	// Unfinished: the command needs every branch to be finished first.
	Unfinished
	// Delegated: the decision was delegated to Result.Branch, or that is appointed; only its end decides.
	Delegated
	// NotInDoubt: there is nothing to resolve: the branch has ended as decided, its end is
	// proved, or the transaction has no branch in doubt.
	NotInDoubt
	// NotSoleBranch: the decision cannot be delegated to Result.Branch: there are other branches, or a vote, or
	// the coordinator prepares the participant, or the branch was enlisted from more than one
	// connection, each of which could commit. Nor can it be appointed: there is a vote, or a branch that the
	// coordinator prepares or that was enlisted again, or another one that decides.
	NotSoleBranch
	// RecoveryPaused: the state was restored from a backup, and no operator has resumed
	// recovery since.
	RecoveryPaused
	// NoToken: there is no such token.
	NoToken
	// NoSession: the client session is unknown; it may have ended and been forgotten.
	NoSession
	// SessionEnded: the client session has ended, at the tick Result.Expiry; Cause says how.
	SessionEnded
	// Forgotten: the id is not known, and it is older than the outcomes that are surely
	// remembered: the transaction may have been decided.
	Forgotten
	// SessionRefReplaced: another session reference was enlisted for the branch since.
	SessionRefReplaced
)

// Result is the replicated answer to one command.
type Result struct {
	Code  Code
	State txn.State // after the command; zero when there is no transaction
	Cause txn.Cause
	// Heuristic and EndedByApplication are as in [txn.Outcome].
	Heuristic          txn.Heuristic
	EndedByApplication bool
	Branch             txn.BranchID // of Enlist: the branch; of a refusal: the one at fault
	// Of Begin and Extend: the values in force. Timeout is also the TTL of a session.
	Timeout  time.Duration
	Survival uint64
	Expiry   survival.Tick // of SessionEnded: the tick of its end
	Mark     txn.Mark      // of Begin, when it is OK or Forgotten: the present one
}

// Change reports that a transaction got another state or heuristic outcome.
type Change struct {
	ID        txn.ID
	State     txn.State
	Cause     txn.Cause
	Heuristic txn.Heuristic
}

// Effects are the results of applying one entry.
type Effects struct {
	Results []Result // one per command, in order
	// Pending lists transactions whose branches now have to be driven (or asked for their
	// votes). It is a hint for the leader; [Machine.Pending] is authoritative.
	Pending []txn.ID
	// DeferToClient lists transactions as Pending does, but the application has promised to
	// complete their branches itself: recovery leaves it a grace period.
	DeferToClient []txn.ID
	Changes       []Change
	// SessionsOpened are the sessions that were opened: the leader has to count their time to
	// live from now on.
	SessionsOpened []SessionLease
	// SessionsClosed are the sessions that their clients have closed, some of them perhaps in
	// the entry that opened them: their time to live need not be counted any more.
	SessionsClosed []SessionLease
	// Heuristics are the heuristic outcomes of branches that became known, and Audit the
	// actions of operators: both for the log file.
	Heuristics []BranchHeuristic
	Audit      []AuditRecord
}

// BranchHeuristic is a branch that has become known to have ended, or that may have ended,
// otherwise than decided.
type BranchHeuristic struct {
	ID          txn.ID
	Branch      txn.BranchID
	Participant string
	Heuristic   txn.Heuristic
	Detail      string // how that is known
}

// SessionLease is a client session that is, or was, open, and its time to live.
type SessionLease struct {
	ID  txn.SessionID
	TTL time.Duration
}
