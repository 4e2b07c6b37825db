package bank

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/participant/web"
	"github.com/txmgr/txmgr/txn"
)

// barrierDeleter is a service that deletes the barrier row of the vault's branch in the same
// transaction when that has voted, and only then votes itself.
type barrierDeleter struct {
	env    *testEnv
	server *httptest.Server

	mu   sync.Mutex // guards done
	done map[string]bool
}

func newBarrierDeleter(b *testEnv) *barrierDeleter {
	c := &barrierDeleter{env: b, done: map[string]bool{}}
	c.server = httptest.NewServer(c)
	b.t.Cleanup(c.server.Close)
	return c
}

func (c *barrierDeleter) url() string { return c.server.URL }

// ServeHTTP implements [http.Handler]. barrierDeleter acts only on prepare.
func (c *barrierDeleter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if phase := r.Header.Get(web.HeaderPhase); phase != "prepare" {
		w.Header().Set(web.HeaderOutcome, map[string]string{"commit": "committed", "rollback": "rolled-back"}[phase])
		return
	}
	if err := c.remove(r.Context(), r.Header.Get(web.HeaderTransaction)); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set(web.HeaderVote, "prepared")
}

func (c *barrierDeleter) remove(ctx context.Context, tx string) error {
	id, err := txn.ParseID(tx)
	if err != nil {
		return err
	}
	if c.removed(tx) {
		return nil
	}
	info, err := c.env.m.Get(ctx, id)
	if err != nil {
		return err
	}
	for _, branch := range info.Branches {
		if branch.Participant != inVault {
			continue
		}
		if branch.Vote != txn.VotePrepared {
			return errors.New("the vault has not voted yet")
		}
		statement := "DELETE FROM " + web.DefaultTable + " WHERE xid = '" + branch.XID + "' AND state = 'prepared'"
		if _, err := c.env.vaultDB.ExecContext(ctx, statement); err != nil {
			return err
		}
		left, err := c.env.texts(c.env.vaultDB, "SELECT state FROM "+web.DefaultTable+" WHERE xid = '"+branch.XID+"'")
		if err != nil || len(left) > 0 {
			return fmt.Errorf("the row of %s is still there: %v, %w", branch.XID, left, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done[tx] = true
	return nil
}

func (c *barrierDeleter) removed(tx string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done[tx]
}

// createBarrierDeletion has the vault's row deleted between its vote and the decision to commit.
func createBarrierDeletion(ctx context.Context, b *testEnv, _ bool, _ *rand.Rand) (heuristicCase, error) {
	p := heuristicCase{id: rig.NewID(), place: inVault, want: txn.HeuristicHazard}
	payload, err := json.Marshal(vaultPayload{Legs: []leg{{inVault, firstManualAccount, -1}, {inVault, firstManualAccount + 1, 1}}})
	if err != nil {
		return p, err
	}
	_, err = b.m.Begin(ctx, txn.Options{ID: p.id, Name: "plant", Timeout: 30 * time.Second, Branches: []txn.Enlistment{
		{Participant: inVault, Payload: payload}, {Participant: "clerk"},
	}})
	if err != nil {
		return p, fmt.Errorf("%w: %w", errNoHeuristic, err)
	}
	_, err = b.m.Commit(ctx, p.id, txn.CommitRequest{})
	if err != nil { // the answer may have been lost
		var info txn.Info
		if info, err = b.m.Wait(ctx, p.id, txn.UntilDecided); err == nil && !info.State.Commits() {
			err = fmt.Errorf("%w: it was rolled back: %v %s", errNoHeuristic, info.Cause, info.Reason)
		}
	}
	if err == nil && !b.barrierDeleter.removed(p.id.String()) {
		err = errors.New("it was decided to commit without the vote of the clerk")
	}
	return p, err
}
