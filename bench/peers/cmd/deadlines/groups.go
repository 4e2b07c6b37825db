package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/embedded"
)

// millionGroup is a group that is measured once: filling it takes long.
const millionGroup = 1_000_000

// assumedBeginRate is the number of begins per second that is assumed before the first measurement.
// A group that is missed is tried again, with more time.
const assumedBeginRate = 20_000

// groups measures txmgr. All sizes take turns.
func (r *report) groups(ctx context.Context, dir string, o options) (err error) {
	nodes, err := embedded.Start(ctx, dir, "-inside")
	defer func() { err = errors.Join(err, nodes.Stop()) }()
	if err != nil {
		return err
	}
	perSecond := float64(assumedBeginRate)
	for n := range o.rounds {
		for _, count := range o.due {
			if count >= millionGroup && n > 0 {
				continue
			}
			g, err := r.group(ctx, nodes, count, perSecond)
			if err != nil {
				return err
			}
			perSecond = float64(g.Count) / g.Filling.Seconds()
			progressf("%7d due at once: the entry that ends them applied after %v, all moved after %v", g.Count, g.Decided, g.Moved)
			r.Groups = append(r.Groups, g)
		}
	}
	return nil
}

// group repeats until a group is complete: a million transactions have to begin before the first of
// them ends.
func (r *report) group(ctx context.Context, nodes *embedded.Cluster, count int, perSecond float64) (*embedded.DeadlineGroup, error) {
	lead := 5*time.Second + time.Duration(2*float64(count)/perSecond*float64(time.Second))
	var errs []error
	for range 3 {
		progressf("%7d transactions of one deadline, %v away", count, lead.Round(time.Second))
		g, err := nodes.DeadlineGroup(ctx, count, lead)
		if err == nil {
			return g, nil
		}
		errs = append(errs, err)
		r.Missed++
		lead *= 2
		progressf("once more: %v", err)
		// The transactions begun so far must end before the next attempt.
		select {
		case <-time.After(lead):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return nil, fmt.Errorf("%d transactions of one deadline: %w", count, errors.Join(errs...))
}
