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

// vote says what an answer to prepare means. Only one with [HeaderVote] is the service's:
// a gateway, a proxy or a portal answers with any status.
func (a answer) vote() (txn.Vote, string, error) {
	word, err := a.word(HeaderVote)
	no := a.status == http.StatusConflict || a.status == http.StatusUnprocessableEntity
	switch {
	case err != nil:
		return 0, "", err
	case a.status == http.StatusAccepted, !no && !a.ok():
		return 0, "", a.failure()
	case word == "":
		return 0, "", a.foreign(HeaderVote)
	case no && word == voteNo:
		return txn.VoteNo, a.reason("the service gave no reason"), nil
	case no && word == wordByHand:
		return txn.VoteEndedByHand, a.reason("the service gave no reason"), nil
	case a.ok() && word == votePrepared:
		return txn.VotePrepared, "", nil
	case a.ok() && word == voteReadOnly:
		return txn.VoteReadOnly, "", nil
	}
	return 0, "", a.contradiction(HeaderVote, word)
}

// commit says what an answer to commit means.
func (a answer) commit() (participant.Result, error) {
	word, err := a.outcome()
	switch {
	case err != nil:
		return participant.Result{}, err
	case a.ok() && word == outcomeCommitted:
		return a.ended(participant.Committed), nil
	case a.gone() && word == outcomeUnknown:
		return a.forgotten(phaseCommit), nil
	case a.status == http.StatusConflict && word == outcomeRolledBack:
		return a.ended(participant.RolledBack), nil
	case a.byHand(word):
		return a.unknown(), nil
	}
	return participant.Result{}, a.contradiction(HeaderOutcome, word)
}

// rollback says what an answer to rollback means.
func (a answer) rollback(b participant.Branch) (participant.Result, error) {
	word, err := a.outcome()
	never := a.ok() && word == outcomeNever || a.gone() && word == outcomeUnknown
	switch {
	case err != nil:
		return participant.Result{}, err
	case never && b.NeedsProof():
		return a.forgotten(phaseRollback), nil
	case never, a.ok() && word == outcomeRolledBack:
		return a.ended(participant.RolledBack), nil
	case a.status == http.StatusConflict && word == outcomeCommitted:
		return a.ended(participant.Committed), nil
	case a.byHand(word):
		return a.unknown(), nil
	}
	return participant.Result{}, a.contradiction(HeaderOutcome, word)
}

// byHand reports whether the service says that its own code has ended the branch.
func (a answer) byHand(word string) bool {
	return a.status == http.StatusConflict && word == wordByHand
}

// unknown is the end of a branch that was ended by hand.
func (a answer) unknown() participant.Result {
	return participant.Result{Ending: participant.Unknown, Detail: fmt.Sprintf("the service answered %d %s: %s", a.status, wordByHand, a.reason("no reason"))}
}

// outcome is what an answer to commit or rollback says of the branch; an error if it says
// nothing, or is not the service's. See [answer.vote].
func (a answer) outcome() (string, error) {
	word, err := a.word(HeaderOutcome)
	switch {
	case err != nil:
		return "", err
	case a.status == http.StatusAccepted, !a.ok() && !a.gone() && a.status != http.StatusConflict:
		return "", a.failure()
	case word == "":
		return "", a.foreign(HeaderOutcome)
	}
	return word, nil
}

func (a answer) ok() bool { return a.status >= 200 && a.status <= 299 }

func (a answer) gone() bool { return a.status == http.StatusNotFound || a.status == http.StatusGone }

func (a answer) ended(e participant.Ending) participant.Result {
	return participant.Result{Ending: e, Detail: fmt.Sprintf("the service answered %d %s", a.status, http.StatusText(a.status))}
}

// forgotten is the end of a branch that has voted and that the service does not know.
func (a answer) forgotten(phase string) participant.Result {
	return participant.Result{Ending: participant.Unknown, Detail: fmt.Sprintf(
		"the service answered %d to %s: it does not know the branch that it has answered prepare for: %s", a.status, phase, a.reason("no reason"))}
}

// foreign is the error of an answer that could be anybody's.
func (a answer) foreign(name string) error {
	text := fmt.Sprintf("the service answered %d %s without %s, so it may be the answer of a gateway, and says nothing of the branch: "+
		"let calls through to the service, or have it send the header", a.status, http.StatusText(a.status), name)
	if reason := a.reason(""); reason != "" {
		text += ": " + reason
	}
	return fmt.Errorf("%s", text)
}

// word gives a header of one word, empty when it is not there.
func (a answer) word(name string) (string, error) {
	values := a.header.Values(name)
	if len(values) > 1 {
		return "", fmt.Errorf("the service answered %d with %d headers %s; want at most one", a.status, len(values), name)
	}
	return strings.ToLower(strings.TrimSpace(a.header.Get(name))), nil
}

func (a answer) contradiction(name, word string) error {
	return fmt.Errorf("the service answered %d with %s: %s, which contradict each other, or are not known", a.status, name, clean(word, 64))
}

// refusals are answers after which a service has not looked at the branch.
var refusals = map[int]string{
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

// failure is the error of an answer that leaves the branch as it may be.
func (a answer) failure() error {
	text := fmt.Sprintf("the service answered %d %s", a.status, http.StatusText(a.status))
	hint, refused := refusals[a.status]
	switch {
	case a.status == http.StatusAccepted:
		text += ": it is still at it"
	case a.gone():
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

// reason is what the body says, or otherwise.
func (a answer) reason(otherwise string) string {
	if text := clean(string(a.body), maxReason); text != "" {
		return text
	}
	return otherwise
}

// retryAfter reads the header of this name: seconds, or a date.
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
