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

// plantTime is how long a planted transaction may stay undecided.
const plantTime = 5 * time.Minute

// planted is a branch that was ended by hand, before its transaction was decided or in
// the gap between the decision to commit and phase two.
type planted struct {
	kind  string
	id    txn.ID
	place string
	gap   bool // in that gap, so that the coordinator may have been faster
	typed bool // not planted: an application typed it
	done  bool // committed; otherwise rolled back
	want  txn.Hazard
}

// plants are those that are in the ground.
type plants struct {
	mu  sync.Mutex // guards all
	all []planted
}

// plantKind is one way of doing what must not be done.
type plantKind struct {
	name  string
	plant func(ctx context.Context, b *bed, inGap bool, r *rand.Rand) (planted, error)
}

var plantKinds = func() (kinds []plantKind) {
	for _, place := range []string{inBank, inSavings} {
		for _, done := range []bool{true, false} {
			for _, decision := range []bool{true, false} {
				words := map[bool]string{true: "commit", false: "rollback"}
				name := fmt.Sprintf("%s: %s by hand, %s by decision", place, words[done], words[decision])
				kinds = append(kinds, plantKind{name, func(ctx context.Context, b *bed, inGap bool, r *rand.Rand) (planted, error) {
					return b.plant(ctx, planted{place: place, gap: inGap && decision, done: done, want: hazardOf(done, decision)}, decision, r)
				}})
			}
		}
	}
	return append(kinds, plantKind{"vault: its barrier row deleted", plantDeletion})
}()

// hazardOf is what has to be found.
func hazardOf(done, decision bool) txn.Hazard {
	switch {
	case done == decision:
		return 0 // which PostgreSQL, and the table of proof in MariaDB, can prove
	case done:
		return txn.HazardCommitted
	}
	return txn.HazardRolledBack
}

// errVoid is a plant that did not take: its transaction is rolled back in an orderly
// way.
var errVoid = errors.New("it did not take")

// hand is somebody who knows how to prepare a branch without the SDK, and to end it
// without the coordinator.
type hand interface {
	// prepare does some work and prepares it. Enlist has been called when it succeeds.
	prepare(ctx context.Context, id txn.ID) (txn.BranchID, error)
	// end ends the branch, whatever is killed meanwhile. That it is not there is an
	// error the first time, unless it may have been ended already.
	end(ctx context.Context, commit, mayHaveEnded bool) error
	close()
}

// plant prepares a branch, ends it by hand, and has the transaction decided, in this
// order or, in the gap, the other.
func (b *bed) plant(ctx context.Context, p planted, decision bool, r *rand.Rand) (planted, error) {
	p.id = rig.NewID()
	if _, err := b.m.Begin(ctx, txn.Options{ID: p.id, Name: "plant", Timeout: plantTime}); err != nil {
		return p, fmt.Errorf("%w: %w", errVoid, err)
	}
	var h hand = &bankHand{bed: b}
	if p.place == inSavings {
		h = &savingsHand{bed: b, same: r.IntN(2) == 0}
	}
	defer h.close()
	trying, cancel := context.WithTimeout(ctx, 20*time.Second)
	branch, err := h.prepare(trying, p.id)
	cancel()
	if err != nil {
		_, rollbackErr := b.m.Rollback(ctx, p.id, "the plant did not take")
		return p, fmt.Errorf("%w: %w", errVoid, errors.Join(err, rollbackErr))
	}
	votes := []txn.BranchVote{{Branch: branch, Vote: txn.VotePrepared}}
	end := func() error { return h.end(ctx, p.done, p.gap) }
	decide := func() error { return rig.Until(ctx, func() error { return b.decide(ctx, p, decision, votes) }) }
	if p.gap {
		end, decide = decide, end
	}
	return p, errors.Join(end(), decide())
}

func (b *bed) decide(ctx context.Context, p planted, decision bool, votes []txn.BranchVote) error {
	if decision {
		_, err := b.m.Commit(ctx, p.id, txn.Commitment{Votes: votes, OwnPhaseTwo: p.gap})
		return err
	}
	// The vote tells that the branch's number was on PostgreSQL's disk, without which a
	// crash takes the proof away.
	if _, err := b.m.Vote(ctx, p.id, txn.Ballot{Votes: votes}); err != nil && !errors.Is(err, txn.ErrRolledBack) {
		return err
	}
	_, err := b.m.Rollback(ctx, p.id, "planted")
	return err
}

// garden plants hazards of every kind, in turn, until ctx ends and every kind was
// there once. From the second round on some are planted in the gap.
func (b *bed) garden(ctx context.Context, rest time.Duration) {
	for n := 0; n < len(plantKinds) || ctx.Err() == nil; n++ {
		kind := plantKinds[n%len(plantKinds)]
		planting, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
		var p planted
		err := rig.Until(planting, func() (err error) {
			r := chance(b.seed, 'p', uint64(n))
			p, err = kind.plant(planting, b, n >= len(plantKinds) && r.IntN(2) == 0, r)
			if err != nil && !errors.Is(err, errVoid) {
				cancel() // it is not known what was planted
			}
			return err
		})
		cancel()
		if err != nil {
			b.t.Errorf("planting %q, transaction %v: %v", kind.name, p.id, err)
			return
		}
		p.kind = kind.name
		b.log.Note("planted %v: %s, in the gap: %v", p.id, p.kind, p.gap)
		b.plants.mu.Lock()
		b.plants.all = append(b.plants.all, p)
		b.plants.mu.Unlock()
		rig.Pause(ctx, rest)
	}
}
