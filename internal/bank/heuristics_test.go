package bank

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/txn"
)

// heuristicTimeout is how long the transaction of a heuristic case may stay undecided.
const heuristicTimeout = 5 * time.Minute

// heuristicCase is a branch that was ended manually, before its transaction was decided or in
// the gap between the decision to commit and phase two.
type heuristicCase struct {
	kind      string
	id        txn.ID
	place     string
	gap       bool // in that gap, where the coordinator may be faster
	typed     bool // not caused by the test: a transfer typed it
	committed bool // committed; otherwise rolled back
	want      txn.Heuristic
}

// heuristicCases are the cases that were created.
type heuristicCases struct {
	mu  sync.Mutex // guards all below
	all []heuristicCase
	// lost are branches in PostgreSQL that were rolled back before they could be prepared. They have no
	// marker row, so after two crashes their end may be unknown.
	lost map[txn.ID]bool
}

func (p *heuristicCases) addLost(id txn.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost == nil {
		p.lost = map[txn.ID]bool{}
	}
	p.lost[id] = true
}

// heuristicKind is one way to cause a heuristic outcome.
type heuristicKind struct {
	name   string
	create func(ctx context.Context, b *testEnv, inGap bool, r *rand.Rand) (heuristicCase, error)
}

var heuristicKinds = func() (kinds []heuristicKind) {
	for _, place := range []string{inBank, inSavings} {
		for _, done := range []bool{true, false} {
			for _, decision := range []bool{true, false} {
				words := map[bool]string{true: "commit", false: "rollback"}
				name := fmt.Sprintf("%s: %s manually, %s by decision", place, words[done], words[decision])
				kinds = append(kinds, heuristicKind{name, func(ctx context.Context, b *testEnv, inGap bool, r *rand.Rand) (heuristicCase, error) {
					return b.createHeuristic(ctx, heuristicCase{place: place, gap: inGap && decision, committed: done, want: expectedHeuristic(done, decision)}, decision, r)
				}})
			}
		}
	}
	return append(kinds, heuristicKind{"vault: its barrier row deleted", createBarrierDeletion})
}()

// expectedHeuristic is the heuristic outcome that has to be found.
func expectedHeuristic(done, decision bool) txn.Heuristic {
	switch {
	case done == decision:
		return 0 // PostgreSQL, and the marker table in MariaDB, can prove it
	case done:
		return txn.HeuristicCommit
	}
	return txn.HeuristicRollback
}

// errNoHeuristic means that no heuristic outcome was caused: the transaction is rolled back in an
// orderly way.
var errNoHeuristic = errors.New("it did not take")

// manualBranch prepares a branch without the SDK, and ends it without the coordinator.
type manualBranch interface {
	// prepare does some work and prepares it. Enlist has been called when it succeeds.
	prepare(ctx context.Context, id txn.ID) (txn.BranchID, error)
	// end ends the branch, whatever is killed meanwhile. A missing branch is an error at the first
	// attempt, unless it may have been ended already.
	end(ctx context.Context, commit, mayHaveEnded bool) error
	close()
}

// createHeuristic prepares a branch, ends it manually, and has the transaction decided, in this
// order or, in the gap, in the other one.
func (b *testEnv) createHeuristic(ctx context.Context, p heuristicCase, decision bool, r *rand.Rand) (heuristicCase, error) {
	p.id = rig.NewID()
	if _, err := b.m.Begin(ctx, txn.Options{ID: p.id, Name: "plant", Timeout: heuristicTimeout}); err != nil {
		return p, fmt.Errorf("%w: %w", errNoHeuristic, err)
	}
	var h manualBranch = &manualPostgres{testEnv: b}
	if p.place == inSavings {
		h = &manualMariaDB{testEnv: b, same: r.IntN(2) == 0}
	}
	defer h.close()
	trying, cancel := context.WithTimeout(ctx, 20*time.Second)
	branch, err := h.prepare(trying, p.id)
	cancel()
	if err != nil {
		_, rollbackErr := b.m.Rollback(ctx, p.id, "the plant did not take")
		if p.place == inBank {
			b.heuristicCases.addLost(p.id)
		}
		return p, fmt.Errorf("%w: %w", errNoHeuristic, errors.Join(err, rollbackErr))
	}
	votes := []txn.BranchVote{{Branch: branch, Vote: txn.VotePrepared}}
	end := func() error { return h.end(ctx, p.committed, p.gap) }
	decide := func() error { return rig.Retry(ctx, func() error { return b.decide(ctx, p, decision, votes) }) }
	if p.gap {
		end, decide = decide, end
	}
	return p, errors.Join(end(), decide())
}

func (b *testEnv) decide(ctx context.Context, p heuristicCase, decision bool, votes []txn.BranchVote) error {
	if decision {
		_, err := b.m.Commit(ctx, p.id, txn.CommitRequest{Votes: votes, ClientCompletes: p.gap})
		return err
	}
	// The vote shows that the branch's xid was on PostgreSQL's disk, without which a crash destroys
	// the commit record.
	if _, err := b.m.Vote(ctx, p.id, txn.Votes{Votes: votes}); err != nil && !errors.Is(err, txn.ErrRolledBack) {
		return err
	}
	_, err := b.m.Rollback(ctx, p.id, "planted")
	return err
}

// createHeuristics causes heuristic outcomes of every kind, in turn, until ctx ends and every kind
// was caused once. From the second round on some are caused in the gap.
func (b *testEnv) createHeuristics(ctx context.Context, rest time.Duration) {
	for n := 0; n < len(heuristicKinds) || ctx.Err() == nil; n++ {
		kind := heuristicKinds[n%len(heuristicKinds)]
		planting, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
		var p heuristicCase
		err := rig.Retry(planting, func() (err error) {
			r := newRand(b.seed, 'p', uint64(n))
			p, err = kind.create(planting, b, n >= len(heuristicKinds) && r.IntN(2) == 0, r)
			if err != nil && !errors.Is(err, errNoHeuristic) {
				cancel() // it is not known what was caused
			}
			return err
		})
		cancel()
		if err != nil {
			b.t.Errorf("planting %q, transaction %v: %v", kind.name, p.id, err)
			return
		}
		p.kind = kind.name
		b.events.Note("planted %v: %s, in the gap: %v", p.id, p.kind, p.gap)
		b.heuristicCases.mu.Lock()
		b.heuristicCases.all = append(b.heuristicCases.all, p)
		b.heuristicCases.mu.Unlock()
		rig.Sleep(ctx, rest)
	}
}
