package machine

import (
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// Entry is one entry of the log: what the machine applies as a whole.
type Entry struct {
	// Tick is the leader's count of invocations when it proposed the entry. A
	// tick behind the machine's own moves nothing.
	Tick survival.Tick
	// Wall is the leader's wall clock in milliseconds since 1970: for people
	// only, nothing is decided by it.
	Wall     int64
	Commands []Command
	// Index is the entry's place in the log. It is not part of the entry: whoever
	// applies it knows it. For people only.
	Index uint64
}

// Command is one of the types below. A command that cannot be carried out is
// refused with a [Code] and changes nothing.
type Command interface{ command() }

// Bootstrap is the first command of a cluster: what never changes afterwards.
type Bootstrap struct {
	Cluster   string        // tag in every XID
	Interval  time.Duration // between two invocations of the timeout thread
	Retention time.Duration // how long finished outcomes are kept, in ticks of Interval
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
	Session  txn.SessionID // of the client, whose silence ends the transaction; zero for none
	// Mark is that of the id. It is zero when nobody but the leader knows the id, so that
	// the command cannot be repeated, and in entries of earlier releases.
	Mark txn.Mark
}

// Branch describes a branch to enlist.
type Branch struct {
	Participant string
	Payload     []byte
	SessionRef  string
}

// Enlist adds a branch to an active transaction, or gives a known one another
// session. A session that was replaced never comes back: a copy of its enlistment that
// arrives late is refused.
type Enlist struct {
	ID     txn.ID
	Branch Branch
	// Legacy marks a command of earlier releases, in which the last to arrive was on
	// record: replayed, it has to be again.
	Legacy bool
}

// Commit adds votes and decides: to commit when every vote is a yes, to roll
// back when one is a no. Missing votes of participants that the coordinator
// prepares turn the transaction to preparing.
type Commit struct {
	ID              txn.ID
	Votes           []txn.BranchVote
	ClientCompletes bool
}

// Vote adds votes and asks for no decision; that of a preparing transaction is made
// when no vote is missing, and a no decides at once.
type Vote struct {
	ID              txn.ID
	Votes           []txn.BranchVote
	ClientCompletes bool
	Reason          string // of a no
}

// EndedByApplication says that statements of the application's own have ended a branch
// ([txn.VoteEndedByApplication]). It decides an undecided transaction to roll back, unless the
// decision is delegated to that branch, whose end then still has to be found out. Whatever
// else was decided stays, and is marked: nobody may be told any more that surely nothing
// was applied.
type EndedByApplication struct {
	ID     txn.ID
	Branch txn.BranchID
	Reason string
}

// Delegate leaves the decision of an active transaction to its only branch, which
// has not voted, was enlisted from one session only, and is prepared by the application: it turns to preparing, its
// deadline decides nothing any more, and the branch's end (by Done, or a Hazard
// that says unknown) is the decision.
type Delegate struct {
	ID     txn.ID
	Branch txn.BranchID
}

// Rollback decides to roll back.
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

// ReportCompletion acknowledges that branches ended as decided.
type ReportCompletion struct {
	ID      txn.ID
	Reports []txn.CompletionReport
}

// ReportHeuristic records that a branch ended, or may have ended, otherwise than decided. A
// proof (any but HazardUnknown) is taken also against a branch that has been
// acknowledged, as long as the outcome is kept.
type ReportHeuristic struct {
	ID        txn.ID
	Branch    txn.BranchID
	Heuristic txn.Heuristic // HazardCommitted, HazardRolledBack or HazardUnknown
	Detail    string
	// Legacy marks a command of earlier releases, which was refused once the branch
	// had ended: replayed, it has to be refused again.
	Legacy bool
}

// Resolve is a person's word: it rolls an undecided transaction back, or says of a
// decided one how branches ended of which that cannot be found out otherwise. The
// same words again are a repeat, and change nothing.
type Resolve struct {
	ID      txn.ID
	Branch  txn.BranchID // zero: all that are unfinished or of unknown end
	Outcome txn.BranchState
	By      string // at most MaxBy bytes
	Reason  string // required
	// Undecided says that the person saw an undecided transaction, and wants it
	// rolled back: when it has been decided to commit meanwhile, that is no word about
	// how its branches ended, and refused.
	Undecided bool
}

// Forget takes a hazard off a finished transaction, for the given reason.
type Forget struct {
	ID     txn.ID
	By     string
	Reason string
}

// AddParticipant is [RegisterParticipant] of earlier releases: its record in the audit
// says neither who nor what.
type AddParticipant struct{ Participant txn.Participant }

// RemoveParticipant is [UnregisterParticipant] of earlier releases: its record in the
// audit does not say who.
type RemoveParticipant struct{ Name string }

// RegisterParticipant registers a participant, or changes the settings of a known one of
// the same kind. Audited, with what has changed; the same settings again change nothing.
type RegisterParticipant struct {
	Participant txn.Participant
	By, Reason  string
}

// UnregisterParticipant takes a registration back; refused while a branch needs it.
// Audited.
type UnregisterParticipant struct{ Name, By, Reason string }

// SetMember notes what a node of the cluster says of itself. Refused with Conflict
// for a node that was removed: its id is never used again.
type SetMember struct{ Member Member }

// Member is what the log knows of a node: who takes part in it says raft.
type Member struct {
	Node    string // its id
	Name    string // for people
	API     string // the URL for clients
	Version string
}

// RemoveMember says that a node is gone for good. Audited.
type RemoveMember struct{ Node, By, Reason string }

// AddToken makes a token, of which only the secret's hash is known. Audited. The
// same again is a repeat; another one with the same id is a Conflict.
type AddToken struct {
	ID      string
	Name    string
	Role    txn.Role
	Hash    [32]byte // SHA-256 of the secret
	Rate    uint32
	Expires int64 // wall clock, milliseconds since 1970; 0 means never
	By      string
}

// RemoveToken takes a token back. Audited.
type RemoveToken struct{ ID, By, Reason string }

// ResumeRecovery ends the time in which a restored cluster is held. Audited.
type ResumeRecovery struct{ By, Reason string }

// OpenSession makes a client's session. The same again is a repeat.
type OpenSession struct {
	ID   txn.SessionID
	Name string
	TTL  time.Duration // what was granted; only whoever hears the client counts it
}

// CloseSession ends a session at the client's wish, and with it its undecided
// transactions, by [txn.CauseClient].
type CloseSession struct{ ID txn.SessionID }

// ExpireSessions ends sessions whose clients went silent, and with them their
// undecided transactions, by [txn.CauseSessionExpired]. Those that are not open are
// passed over.
type ExpireSessions struct{ IDs []txn.SessionID } // at most MaxExpire

func (OpenSession) command()           {}
func (CloseSession) command()          {}
func (ExpireSessions) command()        {}
func (SetMember) command()             {}
func (RemoveMember) command()          {}
func (AddToken) command()              {}
func (RemoveToken) command()           {}
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

// Code says what became of a command. It is part of the replicated result: the
// same on every replica and at every retry. Values are never renumbered.
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
	// BadCompletion: the acknowledgement contradicts the decision or an earlier one.
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
	// Delegated: the decision was delegated to Result.Branch; only its end decides.
	Delegated
	// NotInDoubt: there is nothing to resolve: the branch has ended as decided, its
	// end is proved, or the transaction has no branch in doubt.
	NotInDoubt
	// NotSoleBranch: the decision cannot be delegated: there are other branches, or a vote,
	// or the coordinator prepares the participant, or the branch was enlisted from more
	// than one session, each of which could commit.
	NotSoleBranch
	// RecoveryPaused: the state was restored from a backup, and nobody has said since that new
	// transactions may begin.
	RecoveryPaused
	// NoToken: there is no such token.
	NoToken
	// NoSession: the client's session is unknown; it may have ended and been forgotten.
	NoSession
	// SessionEnded: the client's session has ended, at the tick Result.Expiry; Cause
	// says how.
	SessionEnded
	// Forgotten: nothing is known of the id, and it is older than what is surely
	// remembered: the transaction may have been decided.
	Forgotten
	// SessionRefReplaced: another session was enlisted for the branch since.
	SessionRefReplaced
)

// Result is the replicated answer to one command.
type Result struct {
	Code  Code
	State txn.State // after the command; zero when there is no transaction
	Cause txn.Cause
	// Heuristic and EndedByHand are as in [txn.Outcome].
	Heuristic          txn.Heuristic
	EndedByApplication bool
	Branch             txn.BranchID // of Enlist: the branch; of a refusal: the one at fault
	// Of Begin and Extend: what is in force. Timeout is also the TTL of a session.
	Timeout  time.Duration
	Survival uint64
	Expiry   survival.Tick // of SessionOver: the tick of its end
	Mark     txn.Mark      // of Begin, when it is OK or Forgotten: the present one
}

// Change tells that a transaction got another state or hazard.
type Change struct {
	ID        txn.ID
	State     txn.State
	Cause     txn.Cause
	Heuristic txn.Heuristic
}

// Effects are what applying one entry brought about.
type Effects struct {
	Results []Result // one per command, in order
	// Pending lists transactions whose branches now have to be driven (or asked for
	// their votes). A hint for the leader; the truth is Machine.Undone.
	Pending []txn.ID
	// DeferToClient are as Work, but the application has promised to finish its
	// branches itself: look again a little later.
	DeferToClient []txn.ID
	Changes       []Change
	// SessionsOpened are the sessions that were opened: whoever hears clients has to listen
	// for these from now on.
	SessionsOpened []SessionLease
	// SessionsClosed are those that their clients have closed, some of them perhaps in the
	// entry that opened them: nobody has to listen for these any more.
	SessionsClosed []SessionLease
	// Heuristics are the hazards of branches that became known, and Audit what people
	// did: both for the log file.
	Heuristics []BranchHeuristic
	Audit      []AuditRecord
}

// BranchHeuristic is a branch of which it became known that it ended, or may have
// ended, otherwise than decided.
type BranchHeuristic struct {
	ID          txn.ID
	Branch      txn.BranchID
	Participant string
	Heuristic   txn.Heuristic
	Detail      string // how that is known
}

// SessionLease is a client's session that is, or was, open, and how long its client may be silent.
type SessionLease struct {
	ID  txn.SessionID
	TTL time.Duration
}
