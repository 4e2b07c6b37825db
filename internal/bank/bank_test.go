package bank

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/txn"
)

// TestBank: see the package's documentation.
func TestBank(t *testing.T) {
	d, seed := chaosTime(t), *flagSeed
	if seed == 0 {
		seed = rand.Uint64N(1_000_000) + 1
	}
	t.Logf("a storm of %v; to repeat: go test ./internal/bank -run TestBank -bank.time %v -bank.seed %d", d, d, seed)
	b := newTestEnv(t, seed)
	defer b.printDiagnostics()
	b.open()
	b.prepareForeign()
	t.Logf("set up in %v; the vault keeps its things in PostgreSQL: %v", time.Since(b.begun).Round(time.Millisecond), b.vaultPostgres)
	b.runWithFaults(d)
	b.awaitIdle()
	b.checkConsistency()
	b.compareAll()
	b.calledOnce()
	b.checkHeuristicsKept()
	b.expectTyped()
	b.checkHeuristics()
	b.awaitPruned()
	b.checkThroughput(d)
	t.Logf("transfers: %s", rig.FormatCounts(b.history.countBy(byOutcome)))
	counts := countWays(b.history.all(), b.unknown)
	for _, w := range ways {
		t.Logf("%s: %s", w.name, rig.FormatCounts(counts[w.name]))
	}
	if never := counts.neverCommitted(); d >= time.Minute && len(never) > 0 {
		t.Errorf("nothing was committed in these ways: %s", strings.Join(never, "; "))
	}
	t.Logf("by kind: %s", rig.FormatCounts(b.history.countBy(func(e *entry) string { return e.Kind })))
	t.Logf("faults: %s", b.events.Counts())
	heuristics := b.heuristicCases.count(func(p heuristicCase) bool { return p.want != 0 })
	typed := b.history.countBy(func(e *entry) string {
		if e.Kind != kindTyped {
			return "not typed"
		}
		return byOutcome(e)
	})
	delete(typed, "not typed")
	gaps := b.heuristicCases.count(func(p heuristicCase) bool { return p.gap })
	t.Logf("ended manually: %d branches, %d of them between decision and phase two; heuristic outcomes: %d", len(b.heuristicCases.all), gaps, heuristics)
	t.Logf("statements typed past the SDK: %s; outcomes of their transfers: %s", rig.FormatCounts(b.typed), rig.FormatCounts(typed))
	t.Logf("locks of those who hang were free after the deadline by: %s", &b.lockDelays)
}

// runWithFaults injects faults, and then restores everything: all servers run again, and the
// clients have stopped.
func (b *testEnv) runWithFaults(d time.Duration) {
	b.events.Begin()
	for _, p := range b.clients {
		b.must(p.Start(b.t.Context()))
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	var busy sync.WaitGroup
	busy.Go(func() { b.createHeuristics(ctx, max(time.Second, d/60)) })
	busy.Go(func() { b.holdLocks(ctx, inBank) })
	busy.Go(func() { b.holdLocks(ctx, inSavings) })
	b.injectFaults(d)
	cancel()
	busy.Wait()
	b.events.Note("the storm is over")
	var ending sync.WaitGroup
	for _, p := range b.clients {
		ending.Go(func() {
			if err := p.Stop(rig.WaitTimeout); err != nil {
				b.t.Error(err)
			}
		})
	}
	ending.Wait()
	b.events.Note("the tellers have gone home")
}

// checkThroughput fails a run with too little load.
func (b *testEnv) checkThroughput(d time.Duration) {
	if never := b.events.NeverInjected(faultNames()...); len(never) > 0 {
		b.t.Errorf("these faults never struck: %s", strings.Join(never, "; "))
	}
	outcomes := b.history.countBy(byOutcome)
	if least := int(d.Seconds()) * leastPerSecond; outcomes[outcomeOK] < least {
		b.t.Errorf("only %d transfers were committed, too few to show anything: want %d", outcomes[outcomeOK], least)
	}
	done := b.history.countBy(func(e *entry) string { return e.Kind + " " + byOutcome(e) })
	for _, must := range []string{
		kindPlain + " " + outcomeOK, kindRemote + " " + outcomeOK, kindRead + " " + outcomeOK, kindPlain + " " + outcomeRolledBack,
		kindTyped + " " + outcomeEndedByApp, kindOverdraw + " " + outcomeRolledBack, kindAbandon + " " + outcomeRolledBack, kindPanic + " " + outcomePanicked, kindCancelled + " " + outcomeInDoubt,
	} {
		if done[must] == 0 {
			b.t.Errorf("no transfer was %q; there were: %s", must, rig.FormatCounts(done))
		}
	}
	planted := map[string]int{}
	for _, p := range b.heuristicCases.all {
		planted[p.kind]++
	}
	for _, kind := range heuristicKinds {
		if planted[kind.name] == 0 {
			b.t.Errorf("no heuristic outcome of kind %q was planted: %s", kind.name, rig.FormatCounts(planted))
		}
	}
	for _, place := range places[:2] {
		if why := b.lockDelays.check(place, d); why != "" {
			b.t.Errorf("%s: %s", place, why)
		}
	}
}

// leastPerSecond is how many transfers even a busy machine commits.
const leastPerSecond = 5

func faultNames() (names []string) {
	for _, f := range faults {
		names = append(names, f.name)
	}
	return names
}

// calledOnce checks the callbacks of the vault: the table takes each phase of a branch once, and no
// branch may have both ends.
func (b *testEnv) calledOnce() {
	wrong, err := b.texts(b.vaultDB, `SELECT xid FROM called GROUP BY xid HAVING
		sum(CASE WHEN phase = 'prepare' THEN 1 ELSE 0 END) <> 1 OR count(*) > 2`)
	if err != nil || len(wrong) > 0 {
		b.t.Errorf("the vault was called back wrongly for %q: %v", wrong, err)
	}
	held, err := b.number(b.vaultDB, "SELECT coalesce(sum(held), 0) FROM account WHERE id < 1000")
	if err != nil || held != 0 {
		b.t.Errorf("the vault still holds %d: %v", held, err)
	}
}

// checkHeuristicsKept checks that what was done manually was left so, and counts which side was
// faster in the gap.
func (b *testEnv) checkHeuristicsKept() {
	for i := range b.heuristicCases.all {
		p := &b.heuristicCases.all[i]
		db, mark := b.bank, "$1"
		if p.place == inSavings {
			db, mark = b.savings, "?"
		} else if p.place == inVault {
			continue
		}
		n, err := b.number(db, "SELECT count(*) FROM plant WHERE tx = "+mark, p.id.String())
		switch {
		case err == nil && p.gap:
			p.committed, p.want = n == 1, expectedHeuristic(n == 1, true)
		case err != nil || (n == 1) != p.committed:
			b.t.Errorf("%s, %v: %d rows, %v", p.kind, p.id, n, err)
		}
	}
}

// count counts the cases that satisfy is.
func (p *heuristicCases) count(is func(heuristicCase) bool) (n int) {
	for _, one := range p.all {
		if is(one) {
			n++
		}
	}
	return n
}

// awaitPruned waits until no commit record is left of branches that have ended, but those of
// transfers that the coordinator does not know: they are kept as long as their begin may come.
func (b *testEnv) awaitPruned() {
	ctx, cancel := context.WithTimeout(b.t.Context(), drainTimeout)
	defer cancel()
	b.eventually(ctx, "the evidence has been cleared away", func() error {
		for place, db := range map[string]*sql.DB{inSavings: b.savings, inBank: b.bank} {
			left, err := b.texts(db, "SELECT xid FROM txmgr_branch")
			if err == nil {
				err = checkProofs(place, left, b.unknown)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// checkProofs checks that the commit records that are left in one place are those of transfers that
// the coordinator does not know. A typed ROLLBACK has removed its own.
func checkProofs(place string, left []string, unknown map[txn.ID]*entry) error {
	proved := map[txn.ID]bool{}
	for _, xid := range left {
		_, id, _, ok := txn.ParseXID(xid)
		if e := unknown[id]; !ok || e == nil || !slices.Contains(e.takesPart(), place) {
			return fmt.Errorf("%s: of %d commit records one is left of a transaction that is known: %s", place, len(left), xid)
		}
		proved[id] = true
	}
	for id, e := range unknown {
		if slices.Contains(e.wayOf().places, place) && e.Kind != kindTyped && !proved[id] {
			return fmt.Errorf("%s: the commit record of %v is gone, and its begin may still come", place, id)
		}
	}
	return nil
}

// printDiagnostics prints what is needed to find the cause of a failure.
func (b *testEnv) printDiagnostics() {
	if !b.t.Failed() {
		return
	}
	b.t.Logf("seed %d; what happened:\n%s", b.seed, &b.events)
	if b.coordinator == nil {
		return
	}
	b.t.Logf("the coordinator: %s", b.coordinator.StderrTail())
	if text, err := os.ReadFile(b.errorLog); err == nil {
		b.t.Logf("MariaDB: %s", text[max(0, len(text)-16<<10):])
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	m, err := client.Dial("http://" + b.coordinatorAddr)
	if err != nil {
		return
	}
	defer m.Close()
	inDoubt, err := m.Admin().InDoubts(ctx)
	if err != nil {
		b.t.Logf("list transactions in doubt: %v", err)
	}
	for _, d := range inDoubt[:min(len(inDoubt), 5)] {
		b.t.Logf("in doubt: %v since %v: %s", d.ID, d.Since, d.Why)
		b.explain(ctx, m, d.ID)
	}
	if *flagLogs != "" { // its goroutines are written to its log
		b.coordinator.Dump()
	}
}
