package bank

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/txmgr/txmgr/txn"
)

// history is what the clients have reported.
type history struct {
	mu    sync.Mutex // guards all below
	byID  map[txn.ID]*entry
	order []*entry
}

type entry struct {
	transfer
	outcome string // empty: its client was killed before it could report
	detail  string
	failed  bool    // see [transferEnd]
	decider decider // see [transferEnd]
}

func newHistory() *history { return &history{byID: map[txn.ID]*entry{}} }

// record records a line of a client.
func (l *history) record(line string) error {
	var r report
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		return fmt.Errorf("line %q: %w", line, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case r.Begin != nil && l.byID[r.Begin.ID] == nil:
		e := &entry{transfer: *r.Begin}
		l.byID[e.ID] = e
		l.order = append(l.order, e)
	case r.End != nil && l.byID[r.End.ID] != nil && l.byID[r.End.ID].outcome == "":
		e := l.byID[r.End.ID]
		e.outcome, e.detail, e.failed, e.decider = r.End.Outcome, r.End.Detail, r.End.Failed, r.End.Decider
	default:
		return fmt.Errorf("line %q does not follow from those before", line)
	}
	return nil
}

// all returns the entries in the order of their begins. It is called after the clients have
// stopped.
func (l *history) all() []*entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.order
}

// pick returns a transfer that suits and has ended, if there is one: of the 400 latest, beginning
// at the one that luck selects.
func (l *history) pick(luck int, suits func(*entry) bool) (entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	latest := l.order[max(0, len(l.order)-400):]
	for i := range latest {
		if e := latest[(i+luck)%len(latest)]; e.outcome != "" && suits(e) {
			return *e, true
		}
	}
	return entry{}, false
}

// countBy counts outcomes, by kind of transfer or all together.
func (l *history) countBy(by func(*entry) string) map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := map[string]int{}
	for _, e := range l.order {
		n[by(e)]++
	}
	return n
}

func byOutcome(e *entry) string {
	if e.outcome == "" {
		return "no word of it"
	}
	return e.outcome
}
