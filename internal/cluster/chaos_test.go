package cluster

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/rig"
)

// chaos is a cluster with injected faults of every kind.
type chaos struct {
	b        *testCluster
	money    *money
	maxFault time.Duration // how long a fault may last
}

// transferWorkers make transfers, and abandonedCount transactions wait for their deadlines.
const (
	transferWorkers = 8
	abandonedCount  = 12
)

// leastPerSecond is how many transfers even a busy machine commits, averaged over all faults.
const leastPerSecond = 2

// TestChaos: money moves while nodes, connections and databases fail in turn. See the package
// documentation for what has to hold.
func TestChaos(t *testing.T) {
	d := chaosTime(t)
	b := newTestCluster(t, "--snapshot-bytes", "1000000", "--sweep-interval", "2s")
	b.form()
	c := &chaos{b: b, money: newMoney(b, 2*transferWorkers), maxFault: max(3*time.Second, min(20*time.Second, d/25))}
	dozing := &abandonedTxs{t: t, c: b.dial(30 * time.Second)}
	telling := newTransferClients(c.money, b.dial(10*time.Second), dozing)
	ctx, stop := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	busy.Go(func() { telling.work(ctx, transferWorkers) })
	busy.Go(func() { dozing.work(ctx, abandonedCount) })
	c.injectFaults(d)
	b.events.Note("the storm is over")
	stop()
	b.must(b.net.heal())
	b.awaitHealthy()
	busy.Wait()
	b.events.Note("the tellers have gone home")
	c.money.awaitIdle()
	telling.checkConsistency()
	c.checkCoverage(telling, dozing, d)
}

// checkCoverage fails a run without enough load, and logs the figures.
func (c *chaos) checkCoverage(telling *transferClients, dozing *abandonedTxs, d time.Duration) {
	t := c.b.t
	for _, f := range append(append([]fault{}, nodeFaults...), databaseFaults...) {
		if never := c.b.events.NeverInjected(f.name); len(never) > 0 {
			t.Errorf("it never struck: %s", never[0])
		}
	}
	outcomes := telling.countOutcomes("")
	if least := int(d.Seconds()) * leastPerSecond; outcomes[outcomeOK] < least {
		t.Errorf("only %d transfers were committed, too few to show anything: want %d", outcomes[outcomeOK], least)
	}
	if telling.countOutcomes(kindOverdraw)[outcomeRolledBack] == 0 || telling.countOutcomes(kindAbandon)[outcomeRolledBack] == 0 || telling.reads == 0 {
		t.Errorf("overdrawn: %v; abandoned: %v; reads: %d", telling.countOutcomes(kindOverdraw), telling.countOutcomes(kindAbandon), telling.reads)
	}
	n, _ := dozing.lateness()
	if least := int(d.Seconds()); n < least || dozing.unknown > 0 {
		t.Errorf("%d deadlines were seen, want %d, and %d were never seen to come", n, least, dozing.unknown)
	}
	t.Logf("transfers: %s; reads after an acknowledgement, of any node: %d", rig.FormatCounts(outcomes), telling.reads)
	t.Logf("faults: %s", c.b.events.Counts())
}

// injectFaults injects faults for d, each kind before any is repeated, and returns when the last
// one has ended. It then retries those that could not be injected.
func (c *chaos) injectFaults(d time.Duration) {
	ctx, cancel := context.WithTimeout(c.b.t.Context(), d)
	defer cancel()
	var storming sync.WaitGroup
	storming.Go(func() { c.series(ctx, nodeFaults, time.Second) })
	storming.Go(func() { c.series(ctx, databaseFaults, 2*time.Second) })
	storming.Wait()
	for _, f := range append(append([]fault{}, nodeFaults...), databaseFaults...) {
		for try := 0; try < 3; try++ {
			if len(c.b.events.NeverInjected(f.name)) == 0 {
				break
			}
			c.b.awaitHealthy()
			c.injectFault(c.b.t.Context(), f)
		}
	}
}

func (c *chaos) series(ctx context.Context, faults []fault, rest time.Duration) {
	for round := rand.Perm(len(faults)); rig.Sleep(ctx, rest+rand.N(rest)); round = round[1:] {
		if len(round) == 0 {
			round = []int{rand.IntN(len(faults))}
		}
		c.injectFault(ctx, faults[round[0]])
	}
}

func (c *chaos) injectFault(ctx context.Context, f fault) {
	c.b.events.Note("%s", f.name)
	what, err := f.inject(ctx, c)
	c.b.events.FaultInjected(f.name, what, err)
}
