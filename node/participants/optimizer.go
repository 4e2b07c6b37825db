package participants

import (
	"fmt"
	"sync/atomic"

	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// OptimizerSetting is a setting of participants of every kind: how the concurrency limit of a
// participant's phase-two calls is chosen, in the form of [recovery.ParseOptimizer]. Without it
// the server's default applies.
const OptimizerSetting = "optimizer"

// optimizerChoice reads the choice of a registration; false when it has none.
func optimizerChoice(p admin.Participant) (recovery.OptimizerSpec, bool, error) {
	text, ok := p.Settings[OptimizerSetting]
	if !ok {
		return recovery.OptimizerSpec{}, false, nil
	}
	c, err := recovery.ParseOptimizer(text)
	if err != nil {
		return c, false, fmt.Errorf("participant %q: %w; leave it out for the server's", p.Name, err)
	}
	return c, true, nil
}

// Optimizers holds the choices of the current registrations. Its zero value has none.
type Optimizers struct {
	byName   atomic.Pointer[map[string]recovery.OptimizerSpec]
	observed []machine.Registration // from which byName was built; used only by the goroutine that applies the log
}

// Observe is called with the registrations after every applied entry.
func (c *Optimizers) Observe(now []machine.Registration) {
	if c.byName.Load() != nil && len(now) == len(c.observed) && (len(now) == 0 || &now[0] == &c.observed[0]) {
		return // the machine replaces the slice when it changes
	}
	c.observed = now
	byName := make(map[string]recovery.OptimizerSpec)
	for _, r := range now {
		if choice, ok, err := optimizerChoice(r.Participant); err == nil && ok && !r.Removed {
			byName[r.Name] = choice
		}
	}
	c.byName.Store(&byName)
}

// Choice returns the choice for a participant; false if its registration has none.
func (c *Optimizers) Choice(participant string) (recovery.OptimizerSpec, bool) {
	byName := c.byName.Load()
	if byName == nil {
		return recovery.OptimizerSpec{}, false
	}
	choice, ok := (*byName)[participant]
	return choice, ok
}
