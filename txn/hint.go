package txn

import "errors"

// Hint says what to do about the error now, in one line beside the text of [Error.Error]: in terms of
// the calls, so that every program can add how its users make them. It is empty when that text says
// it all.
func (e *Error) Hint() string {
	for _, h := range hints {
		if errors.Is(e, h.err) {
			return h.do
		}
	}
	if CodeOf(e) == CodeError {
		return "see the log of the server"
	}
	return ""
}

// hints are the steps by sentinel; the first that matches is used. The sentinels that forbid
// doing the work again come before those that permit it.
var hints = []struct {
	err error
	do  string
}{
	{ErrEndedByApplication, "look at the data before anything is repeated; Explain returns what is known of the branches"},
	{ErrHeuristic, "an operator has to look; Explain returns what is known of the branches"},
	{ErrForgotten, "look at your data: it may have been committed; for new work take a new id"},
	{ErrInDoubt, "ask Wait or Get with the id before anything is repeated: the answer is kept; if the id is not found, look at the data"},
	{ErrSessionExpired, "open another session, and begin again in it"},
	{ErrTimedOut, "nothing was applied; begin again, with a longer timeout if the work needs it"},
	{ErrVotedNo, "nothing was applied; correct what the participant says, and begin again"},
	{ErrRolledBack, "nothing was applied; begin again"},
	{ErrNotFound, "check the name; outcomes are forgotten after the retention time"},
	{ErrManaged, "end the transaction, not its session"},
	{ErrConflict, "Get returns the state of the transaction"},
	{ErrNotActive, "Get returns the state of the transaction"},
	{ErrWaitTimeout, "the transaction goes on; wait again"},
	{ErrUnavailable, "try again; Status returns who leads"},
}
