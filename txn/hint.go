package txn

import "errors"

// Hint says what to do about the error now, in one line beside the text of [Error.Error]. It is
// empty when that text says it all.
func (e *Error) Hint() string {
	inspect, explain := "txmgr list", "txmgr indoubt list"
	if !e.ID.IsZero() {
		inspect, explain = "txmgr inspect "+e.ID.String(), "txmgr indoubt explain "+e.ID.String()
	}
	for _, s := range hints {
		if errors.Is(e, s.err) {
			switch s.see {
			case hintInspect:
				return s.do + ": " + inspect
			case hintExplain:
				return s.do + ": " + explain
			}
			return s.do
		}
	}
	if CodeOf(e) == CodeError {
		return "see the log of the server"
	}
	return ""
}

// hintCommand is the command that a hint names.
type hintCommand uint8

const (
	hintNone hintCommand = iota
	hintInspect
	hintExplain
)

// hints are the steps by sentinel; the first that matches is used. The sentinels that forbid
// doing the work again come before those that permit it.
var hints = []struct {
	err error
	do  string
	see hintCommand
}{
	{ErrEndedByApplication, "look at the data before anything is repeated", hintExplain},
	{ErrHeuristic, "an operator has to look", hintExplain},
	{ErrForgotten, "look at your data: it may have been committed; for new work take a new id", hintNone},
	{ErrInDoubt, "ask again before anything is repeated, the answer is kept, by Wait or Get with the id, or", hintInspect},
	{ErrSessionExpired, "open another session, and begin again in it", hintNone},
	{ErrTimedOut, "nothing was applied; begin again, with a longer timeout if the work needs it, or see why", hintInspect},
	{ErrVotedNo, "nothing was applied; correct what the participant says, and begin again, or see why", hintInspect},
	{ErrRolledBack, "nothing was applied; begin again, or see why", hintInspect},
	{ErrNotFound, "check the name; outcomes are forgotten after the retention time: txmgr list", hintNone},
	{ErrManaged, "end the transaction, not its session", hintNone},
	{ErrConflict, "see where it is", hintInspect},
	{ErrNotActive, "see where it is", hintInspect},
	{ErrWaitTimeout, "the transaction goes on; wait again, or see where it is", hintInspect},
	{ErrUnavailable, "try again; see who leads: txmgr status", hintNone},
}
