package bank

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/txmgr/txmgr/participant/web"
	"github.com/txmgr/txmgr/txn"
)

// answersTo are the answers of a service to copies of requests for a branch that has ended.
var answersTo = map[txn.BranchState]map[string]int{
	txn.BranchCommitted:  {"prepare": http.StatusOK, "commit": http.StatusOK, "rollback": http.StatusConflict},
	txn.BranchRolledBack: {"prepare": http.StatusConflict, "commit": http.StatusConflict, "rollback": http.StatusOK},
}

// repeatRequests sends the vault requests for branches that have ended, as a network that delays
// copies does. A prepare that succeeds would reserve money for ever.
func repeatRequests(ctx context.Context, b *testEnv, r *rand.Rand) (string, error) {
	sent := 0
	for range 6 {
		outcome := []string{outcomeOK, outcomeRolledBack}[r.IntN(2)]
		e, found := b.history.pick(r.IntN(400), func(e *entry) bool { return e.outcome == outcome && len(e.at(inVault)) > 0 })
		if !found {
			continue
		}
		info, err := b.m.Get(ctx, e.ID)
		if err != nil {
			continue
		}
		for _, branch := range info.Branches {
			// A heuristic outcome, or an unknown end, has other answers.
			if expected := answersTo[branch.State]; branch.Participant == inVault && expected != nil && branch.Vote != txn.VoteNo {
				n, err := b.repeat(ctx, &e, branch, expected)
				if sent += n; err != nil {
					b.events.Note("a copy for %v was lost: %v", e.ID, err)
				}
			}
		}
	}
	if sent == 0 {
		return "", errors.New("no branch was found, or the vault could not be reached")
	}
	return fmt.Sprintf("%d copies", sent), nil
}

func (b *testEnv) repeat(ctx context.Context, e *entry, branch txn.BranchInfo, expected map[string]int) (sent int, err error) {
	for _, phase := range []string{"prepare", "commit", "rollback"} {
		status, err := b.call(ctx, phase, e.ID, branch.Name, branch.XID, vaultPayload{Legs: e.at(inVault)})
		switch {
		case err != nil:
			return sent, err
		case status >= 500: // its database is down
			continue
		case status != expected[phase]:
			b.t.Errorf("a copy of %s for a branch that is %v was answered by %d, want %d: %s", phase, branch.State, status, expected[phase], branch.XID)
		}
		sent++
	}
	return sent, nil
}

// call calls the vault as a coordinator does.
func (b *testEnv) call(ctx context.Context, phase string, id txn.ID, branch, xid string, o vaultPayload) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	body, err := json.Marshal(o)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+b.vaultAddr+"/txmgr/"+phase, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set(web.HeaderTransaction, id.String())
	request.Header.Set(web.HeaderBranch, branch)
	request.Header.Set(web.HeaderXID, xid)
	request.Header.Set(web.HeaderPhase, phase)
	request.Header.Set(web.HeaderDeadline, "4000")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	_ = answer.Body.Close() // only the status matters
	return answer.StatusCode, nil
}
