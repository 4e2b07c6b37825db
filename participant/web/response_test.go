package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// stubService sends the same response to every request.
type stubService struct {
	status int
	header http.Header
	body   string
}

func (c stubService) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	for name, values := range c.header {
		w.Header()[name] = values
	}
	w.WriteHeader(c.status)
	if c.status >= 200 && c.status != http.StatusNoContent && c.status != http.StatusNotModified {
		fmt.Fprint(w, c.body)
	}
}

// consent answers as a service that agrees with everything: yes, committed, rolled back.
func consent(w http.ResponseWriter, r *http.Request) {
	switch r.Header.Get(HeaderPhase) {
	case phasePrepare:
		w.Header().Set(HeaderVote, votePrepared)
	case phaseCommit:
		w.Header().Set(HeaderOutcome, outcomeCommitted)
	case phaseRollback:
		w.Header().Set(HeaderOutcome, outcomeRolledBack)
	}
	w.WriteHeader(http.StatusNoContent)
}

func head(name string, values ...string) http.Header { return http.Header{name: values} }

func TestVotes(t *testing.T) {
	for _, c := range []struct {
		answer stubService
		vote   txn.Vote
		detail string
		err    string // part of the error
		none   bool   // it is a NoEffectError
	}{
		{answer: stubService{200, head(HeaderVote, "prepared"), "fine"}, vote: txn.VotePrepared},
		{answer: stubService{201, head(HeaderVote, "prepared"), ""}, vote: txn.VotePrepared},
		{answer: stubService{204, head(HeaderVote, "Prepared"), ""}, vote: txn.VotePrepared},
		{answer: stubService{200, head(HeaderVote, " Read-Only "), ""}, vote: txn.VoteReadOnly},
		{answer: stubService{204, head(HeaderVote, "read-only"), ""}, vote: txn.VoteReadOnly},
		{answer: stubService{409, head(HeaderVote, "no"), "no\x00 stock\r\n  left \xff!"}, vote: txn.VoteNo, detail: "no stock left !"},
		{answer: stubService{422, head(HeaderVote, "no"), strings.Repeat("é", 600)}, vote: txn.VoteNo, detail: strings.Repeat("é", 256)},
		{answer: stubService{409, head(HeaderVote, "no"), ""}, vote: txn.VoteNo, detail: "the service gave no reason"},
		{answer: stubService{409, head(HeaderVote, "ended-by-application"), "COMMIT was typed"}, vote: txn.VoteEndedByApplication, detail: "COMMIT was typed"},
		{answer: stubService{409, head(HeaderVote, "Ended-by-Application"), ""}, vote: txn.VoteEndedByApplication, detail: "the service gave no reason"},
		{answer: stubService{200, head(HeaderVote, "ended-by-application"), ""}, err: "contradict"},

		{answer: stubService{200, nil, "fine"}, err: "200 OK without Txmgr-Vote, so it may be the answer of a gateway"},
		{answer: stubService{204, nil, ""}, err: "204 No Content without Txmgr-Vote"},
		{answer: stubService{409, nil, "busy"}, err: "409 Conflict without Txmgr-Vote"},
		{answer: stubService{422, head(HeaderVote, " "), ""}, err: "422 Unprocessable Entity without Txmgr-Vote"},
		{answer: stubService{404, head(HeaderVote, "no"), ""}, err: "404 Not Found"},
		{answer: stubService{200, head(HeaderVote, "no"), ""}, err: "contradict"},
		{answer: stubService{200, head(HeaderVote, "maybe"), ""}, err: "contradict"},
		{answer: stubService{200, head(HeaderVote, "prepared", "no"), ""}, err: "2 headers"},
		{answer: stubService{409, head(HeaderVote, "prepared"), ""}, err: "contradict"},
		{answer: stubService{202, head("Retry-After", "7"), "busy"}, err: "202 Accepted: it is still at it, and wants to be asked again in 7s: busy"},
		{answer: stubService{301, head("Location", "/x"), ""}, err: "redirects are not followed"},
		{answer: stubService{307, head("Location", "/x"), ""}, err: "redirects are not followed"},
		{answer: stubService{400, nil, "what?"}, err: "400 Bad Request: what?", none: true},
		{answer: stubService{401, nil, ""}, err: "the same", none: true},
		{answer: stubService{404, nil, ""}, err: "404 Not Found (is the URL right?)"},
		{answer: stubService{410, nil, ""}, err: "410 Gone"},
		{answer: stubService{408, nil, ""}, err: "408"},
		{answer: stubService{425, nil, ""}, err: "425"},
		{answer: stubService{429, head("Retry-After", "Fri, 01 Jan 2100 00:00:00 GMT"), ""}, err: "in 24h0m0s", none: true},
		{answer: stubService{500, nil, "password=x"}, err: "500 Internal Server Error"},
		{answer: stubService{503, head("Retry-After", "-1"), ""}, err: "503 Service Unavailable"},
		{answer: stubService{999, nil, ""}, err: "999"},
	} {
		t.Run(fmt.Sprint(c.answer.status, c.answer.header), func(t *testing.T) {
			vote, detail, err := serving(t, c.answer, nil).Prepare(t.Context(), newBranch())
			if vote != c.vote || detail != c.detail {
				t.Errorf("voted %v, %q", vote, detail)
			}
			wantError(t, err, c.err, c.none)
		})
	}
}

func TestEnds(t *testing.T) {
	for _, c := range []struct {
		answer           stubService
		commit, rollback participant.BranchOutcome // none: an error
		err              string
		none             bool
	}{
		{answer: stubService{404, head(HeaderOutcome, "unknown"), "who?"}, commit: participant.Unknown, rollback: participant.RolledBack},
		{answer: stubService{410, head(HeaderOutcome, "Unknown"), ""}, commit: participant.Unknown, rollback: participant.RolledBack},
		{answer: stubService{409, head(HeaderOutcome, "rolled-back"), ""}, commit: participant.RolledBack, err: "409 with Txmgr-Outcome: rolled-back, which contradict"},
		{answer: stubService{409, head(HeaderOutcome, "committed"), ""}, rollback: participant.Committed, err: "409 with Txmgr-Outcome: committed, which contradict"},
		{answer: stubService{200, head(HeaderOutcome, "committed"), ""}, commit: participant.Committed, err: "contradict"},
		{answer: stubService{200, head(HeaderOutcome, "rolled-back"), ""}, rollback: participant.RolledBack, err: "contradict"},
		{answer: stubService{200, head(HeaderOutcome, "never-prepared"), ""}, rollback: participant.RolledBack, err: "contradict"},
		{answer: stubService{200, head(HeaderOutcome, "committed", "committed"), ""}, err: "2 headers"},
		{answer: stubService{200, nil, "x"}, err: "200 OK without Txmgr-Outcome, so it may be the answer of a gateway, and says nothing of the branch: let calls through to the service, or have it send the header: x"},
		{answer: stubService{404, nil, "who?"}, err: "404 Not Found without Txmgr-Outcome"},
		{answer: stubService{410, head(HeaderOutcome, ""), ""}, err: "410 Gone without Txmgr-Outcome"},
		{answer: stubService{404, head(HeaderOutcome, "committed"), ""}, err: "contradict"},
		{answer: stubService{404, head(HeaderOutcome, "rolled-back"), ""}, err: "contradict"},
		{answer: stubService{200, head(HeaderOutcome, "unknown"), ""}, err: "contradict"},
		{answer: stubService{409, nil, ""}, err: "409 Conflict without Txmgr-Outcome"},
		{answer: stubService{409, head(HeaderOutcome, "unknown"), ""}, err: "contradict"},
		{answer: stubService{422, head(HeaderOutcome, "committed"), ""}, err: "422"},
		{answer: stubService{202, head("Retry-After", "3"), ""}, err: "still at it, and wants to be asked again in 3s"},
		{answer: stubService{302, head("Location", "/"), ""}, err: "redirects are not followed"},
		{answer: stubService{403, nil, ""}, err: "403", none: true},
		{answer: stubService{405, nil, ""}, err: "is the URL right?", none: true},
		{answer: stubService{500, nil, ""}, err: "500"},
		{answer: stubService{502, nil, ""}, err: "502"},
	} {
		t.Run(fmt.Sprint(c.answer.status, c.answer.header), func(t *testing.T) {
			r := serving(t, c.answer, nil)
			got, err := r.Commit(t.Context(), newBranch())
			wantOutcome(t, "commit", got, err, c.commit, c.err, c.none)
			got, err = r.Rollback(t.Context(), newBranch())
			wantOutcome(t, "rollback", got, err, c.rollback, c.err, c.none)
		})
	}
}

// TestServiceForgotItsYes: the service does not know, at the rollback, a branch that it voted yes for, or
// may have voted yes for after the backup that the coordinator was restored from.
func TestServiceForgotItsYes(t *testing.T) {
	r := serving(t, stubService{200, head(HeaderOutcome, "never-prepared"), ""}, nil)
	for detail, change := range map[string]func(*participant.Branch){
		"has answered prepare for": func(b *participant.Branch) { b.Vote = txn.VotePrepared },
		"restored from":            func(b *participant.Branch) { b.BeforeRestore = true },
	} {
		b := newBranch()
		change(&b)
		got, err := r.Rollback(t.Context(), b)
		wantOutcome(t, "rollback", got, err, participant.Unknown, "", false)
		if !strings.Contains(got.Detail, detail) {
			t.Errorf("%q; want %q", got.Detail, detail)
		}
		said := listedBranch{State: stateNever}.report(b)
		if said.Outcome != participant.Unknown {
			t.Errorf("inspected: %+v", said)
		}
	}
}

func wantOutcome(t *testing.T, verb string, got participant.Result, err error, want participant.BranchOutcome, text string, none bool) {
	t.Helper()
	if got.Outcome != want {
		t.Errorf("%s: ended as %v (%s), %v; want %v", verb, got.Outcome, got.Detail, err, want)
	}
	if want != 0 {
		text = ""
		if got.Detail == "" {
			t.Errorf("%s: no detail", verb)
		}
	}
	wantError(t, err, text, none)
}

func wantError(t *testing.T, err error, text string, none bool) {
	t.Helper()
	switch {
	case text == "" && err != nil:
		t.Errorf("error: %v", err)
	case text == "":
	case err == nil || !strings.Contains(err.Error(), text):
		t.Errorf("error %v, want %s", err, text)
	case noEffect(err) != none:
		t.Errorf("error %v: no effect %v, want %v", err, !none, none)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": -1, "x": -1, "-1": -1, "1.5": -1, " 1": -1, "٣": -1,
		"0": 0, "5": 5 * time.Second, "86400": 24 * time.Hour, "86401": 24 * time.Hour, "99999999999999999999": 24 * time.Hour,
		"Fri, 02 Jan 2026 03:04:15 GMT": 10 * time.Second, "Fri, 02 Jan 2026 03:00:00 GMT": 0, "Fri, 02 Jan 2099 03:00:00 GMT": 24 * time.Hour,
	} {
		got, ok := retryAfter(text, now)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestBranchOfAnotherClusterIsLeftAlone(t *testing.T) {
	r := serving(t, stubService{200, nil, ""}, nil)
	b := newBranch()
	b.XID = txn.XID("other", b.TX, 1)
	_, errCommit := r.Commit(t.Context(), b)
	_, errRollback := r.Rollback(t.Context(), b)
	_, _, errPrepare := r.Prepare(t.Context(), b)
	for _, err := range []error{errCommit, errRollback, errPrepare} {
		if !errors.Is(err, txn.ErrInvalid) || !noEffect(err) {
			t.Errorf("got %v", err)
		}
	}
}
