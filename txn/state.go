package txn

import "fmt"

// State is the state of a global transaction. The zero State is no state. Counts and metrics call
// transactions before the decision undecided, and those that are committing or rolling back
// completing.
type State uint8

const (
	// Active: begun, not decided. Branches may be enlisted, the deadline counts.
	Active State = iota + 1
	// Preparing: commit was requested, and the coordinator collects the missing votes. Not
	// decided; the deadline still counts.
	Preparing
	// Committing: decided to commit, durable, never changed. Some branch has not confirmed the
	// commit yet.
	Committing
	// Committed: every branch has confirmed the commit, or has a heuristic outcome.
	Committed
	// RollingBack: decided to roll back. Some branch has not confirmed the rollback yet.
	RollingBack
	// RolledBack: every branch has confirmed the rollback, so that nothing was applied, or has a
	// heuristic outcome.
	RolledBack
)

var stateNames = []string{"", "active", "preparing", "committing", "committed", "rolling-back", "rolled-back"}

// Decided reports whether the outcome is fixed for ever.
func (s State) Decided() bool { return s >= Committing }

// Finished reports whether nothing is left to be done.
func (s State) Finished() bool { return s == Committed || s == RolledBack }

// Commits reports whether the decision was to commit.
func (s State) Commits() bool { return s == Committing || s == Committed }

// Cause says why a transaction was rolled back. The zero Cause is none.
type Cause uint8

const (
	// CauseClient: the application asked for it.
	CauseClient Cause = iota + 1
	// CauseTimeout: its deadline passed before it was decided.
	CauseTimeout
	// CauseVoteNo: a participant could not promise to commit.
	CauseVoteNo
	// CauseSessionExpired: the client session that it was part of was not renewed in time.
	CauseSessionExpired
	// CauseOperator: an operator rolled it back.
	CauseOperator
)

// Causes are all causes of a rollback.
func Causes() []Cause {
	return []Cause{CauseClient, CauseTimeout, CauseVoteNo, CauseSessionExpired, CauseOperator}
}

var causeNames = []string{"", "client", "timeout", "vote-no", "session-expired", "operator"}

// Vote is a branch's answer to prepare. The zero Vote is none yet.
type Vote uint8

const (
	// VotePrepared: the branch can be committed and can be rolled back, whatever crashes, until
	// it receives the decision.
	VotePrepared Vote = iota + 1
	// VoteReadOnly: the branch changed nothing and takes no part in phase two.
	VoteReadOnly
	// VoteNo: the branch cannot commit; it has rolled back already.
	VoteNo
	// VoteDelegated: no vote; the end of the branch is the decision.
	VoteDelegated
	// VoteEndedByApplication: statements of the application's own have ended the branch, and
	// may have committed its work, or work after it. See [ErrEndedByApplication].
	VoteEndedByApplication
)

var voteNames = []string{"none", "prepared", "read-only", "no", "delegated", "ended-by-application"}

// BranchState is the state of one branch, as far as the coordinator knows.
type BranchState uint8

const (
	// BranchEnlisted: recorded durably, no vote yet.
	BranchEnlisted BranchState = iota + 1
	// BranchPrepared: voted, waits for the decision.
	BranchPrepared
	// BranchCommitted: confirmed the commit.
	BranchCommitted
	// BranchRolledBack: confirmed the rollback.
	BranchRolledBack
	// BranchHeuristic: ended, or may have ended, otherwise than decided.
	BranchHeuristic
)

var branchStateNames = []string{"", "enlisted", "prepared", "committed", "rolled-back", "heuristic"}

// Finished reports whether the branch needs no further action of the coordinator. A heuristic
// outcome is finished in that sense: only an operator can act on it.
func (s BranchState) Finished() bool { return s >= BranchCommitted }

// Heuristic says how the branches of a transaction ended, or may have ended,
// otherwise than decided. The zero Heuristic is none.
type Heuristic uint8

const (
	// HeuristicCommit: decided to roll back, but a branch was committed.
	HeuristicCommit Heuristic = iota + 1
	// HeuristicRollback: decided to commit, but a branch was rolled back.
	HeuristicRollback
	// HeuristicMixed: some branches ended otherwise than decided; others ended as decided, are
	// still open, or their end is unknown.
	HeuristicMixed
	// HeuristicHazard: a participant does not know the branch, and its end cannot be proved.
	HeuristicHazard
)

var heuristicNames = []string{"", "committed", "rolled-back", "mixed", "unknown"}

func name(names []string, i uint8) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("(%d)", i)
}

func parse[T ~uint8](what string, names []string, s string) (T, error) {
	for i, n := range names {
		if n == s {
			return T(i), nil
		}
	}
	return 0, fmt.Errorf("%w: unknown %s %q", ErrInvalid, what, clip(s))
}

// ParseState reads the name of a state.
func ParseState(s string) (State, error) { return parse[State]("state", stateNames, s) }

// ParseVote reads the name of a vote.
func ParseVote(s string) (Vote, error) { return parse[Vote]("vote", voteNames, s) }

// String gives the name used in the API, for example "rolling-back".
func (s State) String() string { return name(stateNames, uint8(s)) }

// String gives the name used in the API, for example "timeout".
func (c Cause) String() string { return name(causeNames, uint8(c)) }

// String gives the name used in the API, for example "read-only".
func (v Vote) String() string { return name(voteNames, uint8(v)) }

// String gives the name used in the API, for example "enlisted".
func (s BranchState) String() string { return name(branchStateNames, uint8(s)) }

// String gives the name used in the API, for example "mixed".
func (h Heuristic) String() string { return name(heuristicNames, uint8(h)) }

// MarshalText implements [encoding.TextMarshaler].
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalText implements [encoding.TextMarshaler].
func (c Cause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// MarshalText implements [encoding.TextMarshaler].
func (v Vote) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// MarshalText implements [encoding.TextMarshaler].
func (s BranchState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalText implements [encoding.TextMarshaler].
func (h Heuristic) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *State) UnmarshalText(b []byte) (err error) {
	*s, err = ParseState(string(b))
	return err
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (c *Cause) UnmarshalText(b []byte) (err error) {
	*c, err = parse[Cause]("cause", causeNames, string(b))
	return err
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (v *Vote) UnmarshalText(b []byte) (err error) {
	*v, err = ParseVote(string(b))
	return err
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *BranchState) UnmarshalText(b []byte) (err error) {
	*s, err = parse[BranchState]("branch state", branchStateNames, string(b))
	return err
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (h *Heuristic) UnmarshalText(b []byte) (err error) {
	*h, err = parse[Heuristic]("heuristic outcome", heuristicNames, string(b))
	return err
}
