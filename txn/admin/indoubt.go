package admin

import (
	"time"

	"github.com/txmgr/txmgr/txn"
)

// MaxInDoubt is the most transactions that a list of those in doubt has: the oldest.
const MaxInDoubt = 1000

// InDoubt is a transaction that an operator may have to look at: one with a heuristic outcome,
// or one that is decided, or delegated, and does not complete.
type InDoubt struct {
	txn.Info
	// Since is when it was decided, by the leader's wall clock.
	Since time.Time `json:"since,omitzero"`
	// Why says in one line what it waits for, or what went wrong.
	Why string `json:"why"`
}

// Explanation is all that is known about one transaction, for an operator who has to decide
// what to do.
type Explanation struct {
	Transaction txn.Info `json:"transaction"`
	// Summary says in a few lines what was decided, when, why, and by which entry of
	// the log.
	Summary  []string      `json:"summary"`
	Branches []BranchProbe `json:"branches"`
	Actions  []Action      `json:"actions"`
	// Audit is what operators did to it, oldest first.
	Audit []AuditRecord `json:"audit"`
}

// BranchProbe is one branch with what its participant now reports about it.
type BranchProbe struct {
	Branch      string `json:"branch"` // b1, b2 and so on
	Participant string `json:"participant"`
	// Prepared says that it is prepared there now, Since since when.
	Prepared bool      `json:"prepared"`
	Since    time.Time `json:"since,omitzero"`
	// Outcome is committed, rolled-back, unknown, or empty when it has not ended or
	// the participant cannot be asked.
	Outcome string `json:"outcome"`
	// Detail says how that is known; Error why the participant could not be asked.
	Detail  string   `json:"detail"`
	Error   string   `json:"error,omitempty"`
	Locks   []string `json:"locks"`
	Waiters []string `json:"waiters"`
	// Attempts are the latest calls that this leader made for it, oldest first.
	Attempts []CallAttempt `json:"attempts"`
	// EarlierAttempts is how many there were before those.
	EarlierAttempts int `json:"earlier_attempts,omitempty"`
}

// CallAttempt is one call to a participant for one branch.
type CallAttempt struct {
	At   time.Time    `json:"at"` // the leader's wall clock
	Took txn.Duration `json:"took"`
	Call string       `json:"call"` // prepare, commit, rollback, resolve outcome or read outcome
	// Result describes the result, in words; Failed says that the call has to be repeated.
	Result string `json:"result"`
	Failed bool   `json:"failed"`
}

// The names of actions.
const (
	ActionRetry    = "retry"
	ActionCommit   = "commit"
	ActionRollback = "rollback"
	ActionForget   = "forget"
)

// Action is an action that an operator could take, whether it is allowed, and why.
type Action struct {
	// Name is retry, commit, rollback or forget: one of the Action constants.
	Name    string `json:"name"`
	Allowed bool   `json:"allowed"`
	Why     string `json:"why"`
}

// Resolution is what an operator found out, or decided, about a transaction in doubt.
//
// An undecided transaction can only be rolled back by it: only votes can commit. Of a decided
// transaction it records how a branch ended that cannot be asked, or whose end cannot be
// proved; when that is not what was decided, the branch gets a heuristic outcome that is no
// longer unknown.
type Resolution struct {
	Branch txn.BranchID // zero: all that are in doubt
	Commit bool         // committed; otherwise rolled back
	Reason string       // required; at most 512 bytes
	By     string       // the operator; at most 128 bytes
}

// AuditRecord is an action of an operator, as recorded in the log.
type AuditRecord struct {
	Seq   uint64    `json:"seq"`
	Time  time.Time `json:"time"` // the leader's wall clock
	Tick  uint64    `json:"tick"`
	Index uint64    `json:"index"` // the log entry
	// Action is resolve, rollback, forget, participant-add, participant-remove, token-add,
	// token-remove, member-add, member-remove, leader-transfer-request or resume.
	Action string `json:"action"`
	ID     txn.ID `json:"id,omitzero"`
	Branch string `json:"branch,omitempty"`
	// Subject is the object of the action and what was done, in words: "b1 committed", "bank".
	Subject string `json:"subject"`
	By      string `json:"by"`
	Reason  string `json:"reason"`
}

// AuditFilter chooses audit records. The zero filter chooses all.
type AuditFilter struct {
	ID    txn.ID
	Since time.Duration // at most this long ago; 0 means any
	Limit int           // the newest; 0 means 1,000
}

// Check is the result of one health check of the coordinator, or of a participant.
type Check struct {
	Participant string `json:"participant"` // empty: the coordinator itself
	Level       string `json:"level"`       // ok, warning or failure
	Subject     string `json:"subject"`
	Message     string `json:"message"`
	// Remedy is what to do: in words, or a statement for the participant's own console or a
	// command for its host. It is empty when nothing is to be done.
	Remedy string `json:"remedy"`
	// Call is the call of the API that shows more, or is made when the remedy was applied: one of
	// the Call constants. CallParticipant is the participant that it is made for; empty if it is
	// made for none.
	Call            string `json:"call,omitempty"`
	CallParticipant string `json:"call_participant,omitempty"`
}

// The calls of [Check.Call].
const (
	CallStatus           = "ClusterService/Status"
	CallDoctor           = "ClusterService/Doctor"
	CallInDoubts         = "InDoubtService/List"
	CallScan             = "InDoubtService/Scan"
	CallList             = "TransactionService/List"
	CallListParticipants = "ParticipantService/List"
	CallAddParticipant   = "ParticipantService/Add"
)
