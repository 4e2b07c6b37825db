package web

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// vote returns the vote in a response to prepare. Only a response with [HeaderVote] is the
// service's: a gateway, a proxy or a portal may answer with any status.
func (a response) vote() (txn.Vote, string, error) {
	word, err := a.headerWord(HeaderVote)
	no := a.status == http.StatusConflict || a.status == http.StatusUnprocessableEntity
	switch {
	case err != nil:
		return 0, "", err
	case a.status == http.StatusAccepted, !no && !a.ok():
		return 0, "", a.statusError()
	case word == "":
		return 0, "", a.missingHeader(HeaderVote)
	case no && word == voteNo:
		return txn.VoteNo, a.reason("the service gave no reason"), nil
	case no && word == wordEndedByApplication:
		return txn.VoteEndedByApplication, a.reason("the service gave no reason"), nil
	case a.ok() && word == votePrepared:
		return txn.VotePrepared, "", nil
	case a.ok() && word == voteReadOnly:
		return txn.VoteReadOnly, "", nil
	}
	return 0, "", a.contradictionError(HeaderVote, word)
}

// commit returns the outcome in a response to commit.
func (a response) commit(b participant.Branch) (participant.Result, error) {
	word, err := a.outcome()
	switch {
	case err != nil:
		return participant.Result{}, err
	case a.ok() && word == outcomeCommitted:
		return a.result(participant.Committed), nil
	case a.notFound() && word == outcomeUnknown:
		return a.forgottenResult(phaseCommit, b), nil
	case a.status == http.StatusConflict && word == outcomeRolledBack:
		return a.result(participant.RolledBack), nil
	case a.endedByApplication(word):
		return a.unknownResult(), nil
	}
	return participant.Result{}, a.contradictionError(HeaderOutcome, word)
}

// rollback returns the outcome in a response to rollback.
func (a response) rollback(b participant.Branch) (participant.Result, error) {
	word, err := a.outcome()
	never := a.ok() && word == outcomeNever || a.notFound() && word == outcomeUnknown
	switch {
	case err != nil:
		return participant.Result{}, err
	case never && b.MayBeCommitted():
		return a.forgottenResult(phaseRollback, b), nil
	case never, a.ok() && word == outcomeRolledBack:
		return a.result(participant.RolledBack), nil
	case a.status == http.StatusConflict && word == outcomeCommitted:
		return a.result(participant.Committed), nil
	case a.endedByApplication(word):
		return a.unknownResult(), nil
	}
	return participant.Result{}, a.contradictionError(HeaderOutcome, word)
}

// endedByApplication reports whether the response says that the service's own code has ended the
// branch.
func (a response) endedByApplication(word string) bool {
	return a.status == http.StatusConflict && word == wordEndedByApplication
}

// unknownResult is the result for a branch that was ended by hand.
func (a response) unknownResult() participant.Result {
	return participant.Result{Outcome: participant.Unknown, Detail: fmt.Sprintf("the service answered %d %s: %s", a.status, wordEndedByApplication, a.reason("no reason"))}
}

// outcome returns the outcome in a response to commit or rollback; an error if there is none, or
// if the response is not the service's. See [response.vote].
func (a response) outcome() (string, error) {
	word, err := a.headerWord(HeaderOutcome)
	switch {
	case err != nil:
		return "", err
	case a.status == http.StatusAccepted, !a.ok() && !a.notFound() && a.status != http.StatusConflict:
		return "", a.statusError()
	case word == "":
		return "", a.missingHeader(HeaderOutcome)
	}
	return word, nil
}

func (a response) ok() bool { return a.status >= 200 && a.status <= 299 }

func (a response) notFound() bool {
	return a.status == http.StatusNotFound || a.status == http.StatusGone
}

func (a response) result(e participant.BranchOutcome) participant.Result {
	return participant.Result{Outcome: e, Detail: fmt.Sprintf("the service answered %d %s", a.status, http.StatusText(a.status))}
}

// forgottenResult is the result for a branch that has voted, or may have voted after a backup, and that
// the service does not know.
func (a response) forgottenResult(phase string, b participant.Branch) participant.Result {
	which := "the branch that it has answered prepare for"
	if b.BeforeRestore {
		which = "the branch, which may have been prepared, committed and forgotten after the backup that the coordinator was restored from"
	}
	return participant.Result{Outcome: participant.Unknown, Detail: fmt.Sprintf(
		"the service answered %d to %s: it does not know %s: %s", a.status, phase, which, a.reason("no reason"))}
}

// missingHeader is the error of a response that may not be the service's.
func (a response) missingHeader(name string) error {
	text := fmt.Sprintf("the service answered %d %s without %s, so it may be the answer of a gateway, and says nothing of the branch: "+
		"let calls through to the service, or have it send the header", a.status, http.StatusText(a.status), name)
	if reason := a.reason(""); reason != "" {
		text += ": " + reason
	}
	return fmt.Errorf("%s", text)
}

// headerWord returns a header of one word, "" if it is missing.
func (a response) headerWord(name string) (string, error) {
	values := a.header.Values(name)
	if len(values) > 1 {
		return "", fmt.Errorf("the service answered %d with %d headers %s; want at most one", a.status, len(values), name)
	}
	return strings.ToLower(strings.TrimSpace(a.header.Get(name))), nil
}

func (a response) contradictionError(name, word string) error {
	return fmt.Errorf("the service answered %d with %s: %s, which contradict each other, or are not known", a.status, name, clean(word, 64))
}

// noEffectStatus are statuses that mean that the service has not processed the request, with hints
// for the operator.
var noEffectStatus = map[int]string{
	http.StatusBadRequest:                  "",
	http.StatusUnauthorized:                "secret_file and the service's secret have to be the same",
	http.StatusForbidden:                   "",
	http.StatusMethodNotAllowed:            "is the URL right?",
	http.StatusLengthRequired:              "",
	http.StatusRequestEntityTooLarge:       "the payload is too large for the service",
	http.StatusRequestURITooLong:           "",
	http.StatusUnsupportedMediaType:        "",
	http.StatusTooManyRequests:             "",
	http.StatusRequestHeaderFieldsTooLarge: "",
}

// statusError is the error of a response that says nothing about the branch.
func (a response) statusError() error {
	text := fmt.Sprintf("the service answered %d %s", a.status, http.StatusText(a.status))
	hint, refused := noEffectStatus[a.status]
	switch {
	case a.status == http.StatusAccepted:
		text += ": it is still at it"
	case a.notFound():
		hint = "is the URL right?"
	case a.status >= 300 && a.status <= 399:
		hint = "redirects are not followed: register the URL to which it leads"
	}
	if hint != "" {
		text += " (" + hint + ")"
	}
	if wait, ok := retryAfter(a.header.Get("Retry-After"), time.Now()); ok {
		text += fmt.Sprintf(", and wants to be asked again in %v", wait)
	}
	if reason := a.reason(""); reason != "" {
		text += ": " + reason
	}
	if refused {
		return &participant.NoEffectError{Err: fmt.Errorf("%s", text)}
	}
	return fmt.Errorf("%s", text)
}

// reason returns the cleaned body, or otherwise if it is empty.
func (a response) reason(otherwise string) string {
	if text := clean(string(a.body), maxReason); text != "" {
		return text
	}
	return otherwise
}

// retryAfter parses the header Retry-After: seconds, or a date.
func retryAfter(s string, now time.Time) (time.Duration, bool) {
	const most = 24 * time.Hour
	if digits(s) {
		n, err := strconv.ParseUint(s, 10, 63)
		if err != nil || n > uint64(most/time.Second) {
			return most, true
		}
		return time.Duration(n) * time.Second, true
	}
	at, err := http.ParseTime(s)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), 0), most).Round(time.Second), true
}
