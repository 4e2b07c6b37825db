package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/txnhttp"
	"github.com/txmgr/txmgr/txn/txntest"
)

// errorPage is the response of a gateway, a load balancer or a captive portal: any status, and no
// header of the contract.
func errorPage(status int) stubService {
	return stubService{status, http.Header{"Content-Type": {"text/html"}, "Location": {"/login"}}, "<html>" + http.StatusText(status) + "</html>"}
}

// TestAnswersOfOthersEndNothing: without the header of the contract no response is a vote or an
// outcome.
func TestAnswersOfOthersEndNothing(t *testing.T) {
	for _, status := range []int{200, 201, 202, 204, 206, 301, 302, 307, 400, 401, 403, 404, 405, 407, 409, 410, 421, 422, 429, 451, 500, 501, 502, 503, 504, 520} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			r := serving(t, errorPage(status), nil)
			if vote, _, err := r.Prepare(t.Context(), newBranch()); vote != 0 || err == nil {
				t.Errorf("a vote is made of the answer %d to prepare: %v, %v", status, vote, err)
			}
			for _, vote := range []txn.Vote{0, txn.VotePrepared} {
				b := newBranch()
				b.Vote = vote
				for phase, do := range map[string]func(context.Context, participant.Branch) (participant.Result, error){phaseCommit: r.Commit, phaseRollback: r.Rollback} {
					if got, err := do(t.Context(), b); got.Outcome != 0 || err == nil {
						t.Errorf("an end is made of the answer %d to %s of a branch that voted %v: %v, %v", status, phase, vote, got, err)
					}
				}
			}
		})
	}
}

// TestGatewayInTheWay: a gateway answers instead of the service after the vote. Recovery retries
// the branch, the participant is shown as failing, with the response and the remedy, and when the
// gateway lets calls through the branch ends as decided.
func TestGatewayInTheWay(t *testing.T) {
	for _, c := range []struct {
		status int
		end    txn.State
	}{{404, txn.Committed}, {410, txn.RolledBack}, {200, txn.Committed}, {404, txn.RolledBack}, {200, txn.RolledBack}} {
		t.Run(fmt.Sprintf("%d instead of %v", c.status, c.end), func(t *testing.T) { testGateway(t, c.status, c.end) })
	}
}

func testGateway(t *testing.T, status int, end txn.State) {
	const branch = 3 // that of the service "mail"
	voted := make(chan struct{})
	co := newAppFixture(t, callbacks{})
	co.add(t, "news", onLedger(t).handler(callbacks{prepare: func(ctx context.Context, _ work, _ Branch) error {
		select {
		case <-voted: // a no that comes before would end the transaction without that vote
		case <-ctx.Done():
		}
		if end == txn.RolledBack {
			return No("test")
		}
		return nil
	}}, Options{}))
	service := co.mail.handler(callbacks{
		prepare:  func(_ context.Context, do work, _ Branch) error { return do("held", 1) },
		commit:   func(_ context.Context, do work, _ Branch) error { return do("committed", 1) },
		rollback: func(_ context.Context, do work, _ Branch) error { return do("rolled-back", 1) },
	}, Options{})
	var open atomic.Bool
	co.add(t, "mail", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		phase := r.Header.Get(HeaderPhase)
		if (phase == phaseCommit || phase == phaseRollback) && !open.Load() {
			errorPage(status).ServeHTTP(w, r)
			return
		}
		service.ServeHTTP(w, r)
		if phase == phasePrepare {
			close(voted)
		}
	}))
	id, err := co.order(t, txn.Options{})
	if end == txn.RolledBack != errors.Is(err, txn.ErrVotedNo) || end == txn.Committed && err != nil {
		t.Fatal(err)
	}
	waittest.NoError(t, func() error {
		if i, err := co.Get(t.Context(), id); err != nil || i.State.Finished() || i.Heuristic != 0 {
			t.Fatalf("ended by an answer of the gateway: %v, heuristic %v, %v", i.State, i.Heuristic, err)
		}
		all, err := co.Admin().Participants(t.Context())
		for _, p := range all {
			if p.Name == "mail" && !p.Healthy && strings.Contains(p.LastError, fmt.Sprintf("the service answered %d", status)) && strings.Contains(p.LastError, HeaderOutcome) {
				return err
			}
		}
		return fmt.Errorf("not shown as failing: %+v, %v", all, err)
	})
	if n := co.mail.counts(t); n["held"] != 1 || len(n) != 1 {
		t.Errorf("the service has done %v", n)
	}
	open.Store(true)
	if i := co.finished(t, id); i.State != end || i.Heuristic != 0 || i.Branches[branch-1].Heuristic != 0 {
		t.Errorf("in the end %v, heuristic %v", i.State, i.Heuristic)
	}
	wantCounts(t, co.mail, map[string]int64{"held": 1, end.String(): 1})
}

// TestServiceSaysThatItDoesNotKnowTheBranch: with the header, 404 and 410 are the service's own
// response.
func TestServiceSaysThatItDoesNotKnowTheBranch(t *testing.T) {
	for _, status := range []int{404, 410} {
		r := serving(t, stubService{status, head(HeaderOutcome, "unknown"), "who?"}, nil)
		b := newBranch()
		got, err := r.Rollback(t.Context(), b)
		wantOutcome(t, "rollback without a vote", got, err, participant.RolledBack, "", false)
		b.Vote = txn.VotePrepared
		got, err = r.Rollback(t.Context(), b)
		wantOutcome(t, "rollback after a yes", got, err, participant.Unknown, "", false)
		got, err = r.Commit(t.Context(), b)
		wantOutcome(t, "commit after a yes", got, err, participant.Unknown, "", false)
	}
}

// TestHandlerBehindTheMiddleware: the middleware that propagates transactions between services does
// not change the coordinator's own calls and their responses.
func TestHandlerBehindTheMiddleware(t *testing.T) {
	middleware := txnhttp.New(txntest.New(t), txnhttp.TrustAll, txnhttp.Options{})
	defer func() { check(t, middleware.Close(t.Context())) }()
	r := serving(t, middleware.Handler(onLedger(t).handler(callbacks{}, Options{})), map[string]string{"list": "/prepared"})
	committed, lost, never := newBranch(), newBranch(), newBranch()
	mustVote(t, r, committed, txn.VotePrepared)
	mustVote(t, r, lost, txn.VotePrepared)
	if list, err := r.Prepared(t.Context(), r.prefix); len(list) != 2 || err != nil {
		t.Errorf("list %v, %v", list, err)
	}
	got, err := r.Commit(t.Context(), committed)
	wantOutcome(t, "commit", got, err, participant.Committed, "", false)
	got, err = r.Rollback(t.Context(), lost)
	wantOutcome(t, "rollback", got, err, participant.RolledBack, "", false)
	got, err = r.Commit(t.Context(), never)
	wantOutcome(t, "unknown", got, err, participant.Unknown, "", false)
	mustVote(t, r, lost, txn.VoteNo)
}
