package txn

import "errors"

// Next says what to do about the error now: one line for people, beside what
// [Error.Error] says. It is empty when the text of the error says it all.
func (e *Error) Next() string {
	look, explain := "txmgr list", "txmgr doubt list"
	if !e.ID.IsZero() {
		look, explain = "txmgr inspect "+e.ID.String(), "txmgr doubt explain "+e.ID.String()
	}
	for _, s := range nextSteps {
		if errors.Is(e, s.err) {
			switch s.see {
			case seeState:
				return s.do + ": " + look
			case seeDoubt:
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

// see is the command that a step names.
type see uint8

const (
	seeNothing see = iota
	seeState
	seeDoubt
)

// nextSteps are the steps by sentinel, the first that fits first: what forbids to do
// the work again comes before what permits it.
var nextSteps = []struct {
	err error
	do  string
	see see
}{
	{ErrEndedByHand, "look at the data before anything is repeated", seeDoubt},
	{ErrHazard, "a person has to look", seeDoubt},
	{ErrForgotten, "look at your data: it may have been committed; for new work take a new id", seeNothing},
	{ErrInDoubt, "ask again before anything is repeated, the answer is kept, by Wait or Get with the id, or", seeState},
	{ErrSessionExpired, "open another session, and begin again in it", seeNothing},
	{ErrTimedOut, "nothing was applied; begin again, with a longer timeout if the work needs it, or see why", seeState},
	{ErrVotedNo, "nothing was applied; correct what the participant says, and begin again, or see why", seeState},
	{ErrRolledBack, "nothing was applied; begin again, or see why", seeState},
	{ErrNotFound, "check the name; outcomes are forgotten after the retention time: txmgr list", seeNothing},
	{ErrManaged, "end the transaction, not its session", seeNothing},
	{ErrConflict, "see where it is", seeState},
	{ErrNotActive, "see where it is", seeState},
	{ErrWaitTimeout, "the transaction goes on; wait again, or see where it is", seeState},
	{ErrUnavailable, "try again; see who leads: txmgr status", seeNothing},
}
