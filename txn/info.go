package txn

import (
	"cmp"
	"slices"
	"time"
)

// Info is one transaction as the coordinator sees it. The JSON form is part of
// the API.
type Info struct {
	ID        ID        `json:"id"`
	Name      string    `json:"name"`
	State     State     `json:"state"`
	Cause     Cause     `json:"cause"`
	Reason    string    `json:"reason"` // given by the client that asked for the rollback
	Heuristic Heuristic `json:"heuristic"`
	// Timeout is the granted timeout; Began is the leader's wall clock, for display only.
	Timeout Duration  `json:"timeout"`
	Began   time.Time `json:"began"`
	// Decided is when the decision was made, by the leader's wall clock, for display only;
	// DecidedTick and DecidedIndex are the coordinator's tick and the log entry of the
	// decision. Zero when undecided, and for decisions made before these were recorded.
	Decided      time.Time `json:"decided,omitzero"`
	DecidedTick  uint64    `json:"decided_tick,omitempty"`
	DecidedIndex uint64    `json:"decided_index,omitempty"`
	// ExpiresIn is the time until the deadline; zero when decided.
	ExpiresIn Duration `json:"expires_in"`
	// SurvivalIndex is the number of invocations of the timeout thread that the transaction may
	// survive, counted from its begin (or its last extension). RemainingInvocations is how many
	// of them are left, zero when decided. ExpiryTick is the tick of the invocation that ends
	// it.
	SurvivalIndex        uint64            `json:"survival_index"`
	RemainingInvocations uint64            `json:"remaining_invocations"`
	ExpiryTick           uint64            `json:"expiry_tick"`
	Labels               map[string]string `json:"labels"`
	Branches             []BranchInfo      `json:"branches"`
	// Session is the client session that the transaction is part of, if any.
	Session SessionID `json:"session,omitzero"`
}

// EndedByApplication reports whether statements of the application's own ended a branch: see
// [ErrEndedByApplication].
func (i *Info) EndedByApplication() bool {
	return slices.ContainsFunc(i.Branches, func(b BranchInfo) bool { return b.Vote == VoteEndedByApplication })
}

// RolledBack is the error of a call that requires another state than that of a transaction
// which is rolled back: [ErrRolledBack] only if surely nothing was applied. A heuristic outcome
// counts also after an operator has forgotten it.
func (i *Info) RolledBack(op string) *Error { return i.Outcome().rolledBack(op, i.ID) }

// Outcome is what a call that waits returns of i. Its heuristic outcome is also that of a branch.
func (i *Info) Outcome() Outcome {
	o := Outcome{State: i.State, Cause: i.Cause, Heuristic: i.Heuristic, EndedByApplication: i.EndedByApplication()}
	for _, b := range i.Branches {
		o.Heuristic = cmp.Or(o.Heuristic, b.Heuristic)
	}
	return o
}

// BranchInfo is one branch as the coordinator sees it.
type BranchInfo struct {
	ID          BranchID    `json:"-"`
	Name        string      `json:"id"` // text form of ID
	Participant string      `json:"participant"`
	Kind        string      `json:"kind"`
	XID         string      `json:"xid"`
	Vote        Vote        `json:"vote"`
	State       BranchState `json:"state"`
	// Heuristic says how the branch ended, or may have ended, otherwise than decided, and
	// Detail how that is known.
	Heuristic Heuristic `json:"heuristic,omitzero"`
	Detail    string    `json:"detail,omitempty"`
	// Attempts, LastError and NextTry say why phase two is not complete; only the leader knows
	// them.
	Attempts  int      `json:"attempts"`
	LastError string   `json:"last_error"`
	NextTry   Duration `json:"next_try_in"`
}

// Duration is a [time.Duration] with Go's text form, "12.3s", in JSON; zero is the empty text.
type Duration time.Duration

// String gives the text form.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) {
	if d == 0 {
		return nil, nil
	}
	return []byte(d.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*d = 0
		return nil
	}
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}
