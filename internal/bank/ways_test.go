package bank

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/txn"
)

// way is a way to commit: what a transfer asks for, who then decides, and what its answers promise.
// docs/protocol.md has the promises.
type way struct {
	name    string
	share   int         // how often in a hundred transfers
	places  []string    // where its branches are; nil: in places that are drawn, of which the log decides
	options txn.Options // how it is begun and committed
	// decider decides, unless it cannot: then one that waits for more.
	decider decider
	// mayBeUnknown says that the commit does not wait for the begin, which can be lost: then the
	// coordinator does not know the transfer, and only the databases show that it committed.
	mayBeUnknown bool
}

// decider is who decided to commit, as a client sees it by its calls. The later ones wait for more.
type decider int

const (
	nothing  decider = iota // it was not committed
	byBranch                // a branch by its own commit, for which the coordinator was not asked
	byDelegate
	byLog
)

var (
	awaitBegin       = txn.Options{AwaitBegin: true}
	returnOnDecision = txn.Options{ReturnOnDecision: true}
	lastDecides      = txn.Options{LastDecides: true}
	lastReturns      = txn.Options{LastDecides: true, ReturnOnDecision: true}
)

var ways = []way{
	{name: "several branches, by the log", share: 23, decider: byLog},
	{name: "several branches, by the log, begin awaited", share: 11, options: awaitBegin, decider: byLog},
	{name: "several branches, by the log, answered on decision", share: 11, options: returnOnDecision, decider: byLog},
	{name: "both databases, by the last", share: 12, places: []string{inBank, inSavings}, options: lastDecides, decider: byBranch},
	{name: "both databases, by the last, answered on decision", share: 5, places: []string{inBank, inSavings}, options: lastReturns, decider: byBranch},
	{name: "PostgreSQL alone, appointed", share: 11, places: []string{inBank}, decider: byBranch, mayBeUnknown: true},
	{name: "MariaDB alone, appointed", share: 11, places: []string{inSavings}, decider: byBranch, mayBeUnknown: true},
	{name: "PostgreSQL alone, delegated", share: 8, places: []string{inBank}, options: awaitBegin, decider: byDelegate},
	{name: "MariaDB alone, delegated", share: 8, places: []string{inSavings}, options: awaitBegin, decider: byDelegate},
}

// alone reports whether there is one branch, in a database.
func (w way) alone() bool { return len(w.places) == 1 }

// drawWay draws a way for a kind of transfer. A branch of another process, and one that only reads,
// cannot decide.
func drawWay(r *rand.Rand, kind string) way {
	for {
		n := r.IntN(100)
		at := slices.IndexFunc(ways, func(w way) bool { n -= w.share; return n < 0 })
		if w := ways[at]; !w.alone() || kind != kindRemote && kind != kindRead {
			return w
		}
	}
}

// wayOf is the way of a transfer; the zero one if it names none.
func (tr *transfer) wayOf() way {
	for _, w := range ways {
		if w.name == tr.Way {
			return w
		}
	}
	return way{}
}

// checkAnswer describes which promise of its way the answer to a transfer contradicts; empty if
// none. there tells whether the databases contain it.
func (e *entry) checkAnswer(there bool) string {
	w := e.wayOf()
	switch {
	case w.name == "":
		return fmt.Sprintf("there is no way %q", e.Way)
	case e.outcome == outcomeOther:
		return "no caller should get that answer"
	case e.outcome == outcomeOK && len(e.Legs) > 0 && !there:
		return "it is not there"
	case there && e.outcome != outcomeOK && e.outcome != outcomeInDoubt && e.outcome != "":
		return "it is there"
	case e.outcome == outcomeOK && e.decider < w.decider:
		return fmt.Sprintf("the decision was not waited for: decider %d, want %d", e.decider, w.decider)
	case e.outcome == outcomeInDoubt && e.failed && e.Remote == "":
		return "nothing can be in doubt: it failed before the commit, and no other process took part"
	}
	return ""
}

// mayBeUnknown reports whether the coordinator may not know a transfer: because it never began, or
// its only branch was committed without waiting for the begin. A typed COMMIT waits for nothing.
func (e *entry) mayBeUnknown(there bool) bool {
	switch {
	case !there, e.Kind == kindTyped && e.outcome != outcomeOK:
		return e.outcome != outcomeOK
	}
	return e.wayOf().mayBeUnknown && (e.outcome != outcomeOK || e.decider == byBranch)
}

// wayCounts counts transfers by way and outcome. Those that were decided by another than their way says are apart. Those
// that are there although the coordinator does not know them are counted once more, unless a COMMIT was typed.
type wayCounts map[string]map[string]int

const (
	countOtherwise = outcomeOK + " by another decider"
	countUnknown   = "unknown to the log"
)

func countWays(entries []*entry, unknown map[txn.ID]*entry) wayCounts {
	counts := wayCounts{}
	for _, w := range ways {
		counts[w.name] = map[string]int{}
	}
	for _, e := range entries {
		n := counts[e.wayOf().name]
		if n == nil {
			continue // checkAnswer says so
		}
		if e.outcome == outcomeOK && e.decider != e.wayOf().decider {
			n[countOtherwise]++
		} else {
			n[byOutcome(e)]++
		}
		if unknown[e.ID] != nil && e.Kind != kindTyped {
			n[countUnknown]++
		}
	}
	return counts
}

// neverCommitted lists the ways in which nothing was committed as they say.
func (c wayCounts) neverCommitted() (never []string) {
	for _, w := range ways {
		if n := c[w.name]; n[outcomeOK] == 0 {
			never = append(never, fmt.Sprintf("%s (%s)", w.name, rig.FormatCounts(n)))
		}
	}
	return never
}
