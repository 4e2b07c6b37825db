package main

import (
	"context"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// probe is a transaction whose deadline falls into the time around a kill. Its timeout started
// between began and begun.
type probe struct {
	id           txn.ID
	began, begun time.Time
	timeout      time.Duration
}

const probes = 24

// probe begins transactions with deadlines from half a second to six seconds from now, a quarter of
// a second apart.
func (t *cluster) probe(ctx context.Context) ([]probe, error) {
	out := make([]probe, probes)
	return out, each(ctx, probes, func(ctx context.Context, i int) error {
		p := probe{began: time.Now(), timeout: 500*time.Millisecond + time.Duration(i)*250*time.Millisecond}
		b, err := t.client.Begin(ctx, txn.Options{Name: "probe", Timeout: p.timeout})
		p.id, p.begun = b.ID, time.Now()
		out[i] = p
		return err
	})
}

// clockPrecision is the precision of the time of a decision; all processes use the clock of this
// machine.
const clockPrecision = 2 * time.Millisecond

// checkProbes compares the times at which the probes ended with their deadlines.
func (t *cluster) checkProbes(ctx context.Context, k *kill, probes []probe, interval time.Duration) error {
	for i, p := range probes {
		info, err := t.client.Wait(ctx, p.id, txn.UntilDecided)
		if err != nil {
			return err
		}
		if info.State.Commits() || info.Cause != txn.CauseTimeout {
			return fmt.Errorf("probe %d is %v because of %v, and should have timed out", i, info.State, info.Cause)
		}
		if info.Decided.Before(p.began.Add(p.timeout - clockPrecision)) {
			progressf("%s had %v from %v on, and was ended at %v", p.id, p.timeout, p.began, info.Decided)
			k.Early++
		}
		late := info.Decided.Sub(p.begun.Add(p.timeout))
		k.Late = max(k.Late, late)
	}
	k.Excess = max(0, k.Late-interval-k.Served)
	return nil
}
