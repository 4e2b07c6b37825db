package machine

import (
	"slices"
	"testing"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// TestScanWhileOutcomesComeAndGo: a cursor holds when its arena was emptied and another took
// its place, or when the whole machine is another one.
func TestScanWhileOutcomesComeAndGo(t *testing.T) {
	k := newRetentionFixture(t, Bootstrap{Interval: time.Second, Retention: time.Hour, Retain: 1 << 40})
	all := func(Summary) bool { return true }
	scan := func(m *Machine, from RetainedCursor) (ids []txn.ID) {
		t.Helper()
		for range 1000 {
			var part []Transaction
			part, from = m.ScanRetained(from, 1, IDRange{}, all)
			for i := range part {
				ids = append(ids, part[i].ID)
			}
			if from == (RetainedCursor{}) {
				slices.SortFunc(ids, txn.ID.Compare)
				return ids
			}
		}
		t.Fatal("the scan has no end")
		return nil
	}
	sorted := func(ids ...[]txn.ID) []txn.ID {
		return slices.SortedFunc(slices.Values(slices.Concat(ids...)), txn.ID.Compare)
	}
	const many = 2000 // several chunks
	old, newer := k.finish(many, 1), k.finish(many, 50)
	if got := scan(k.Machine, RetainedCursor{}); !slices.Equal(got, sorted(old, newer)) {
		t.Errorf("scanned %d, want %d", len(got), 2*many)
	}
	var from RetainedCursor
	met := make(map[txn.ID]bool)
	for len(met) <= many {
		var part []Transaction
		part, from = k.ScanRetained(from, 1, IDRange{}, all)
		for i := range part {
			if met[part[i].ID] {
				t.Errorf("met %v again", part[i].ID)
			}
			met[part[i].ID] = true
		}
	}
	rest := slices.DeleteFunc(sorted(old, newer), func(id txn.ID) bool { return met[id] })
	k.finish(3, 50) // is not met any more: a list has examined records before
	if got := scan(k.Machine, from); !slices.Equal(got, rest) || slices.ContainsFunc(newer, func(id txn.ID) bool { return !met[id] }) {
		t.Errorf("gone on with %d, want %d", len(got), len(rest))
	}
	for _, id := range old {
		do(t, k.Machine, ReportHeuristic{ID: id, Branch: 1, Heuristic: txn.HeuristicRollback})
	}
	for name, m := range map[string]*Machine{"emptied": k.Machine, "another machine": restored(t, k.Machine)} {
		if got := scan(m, from); len(got) != 0 {
			t.Errorf("%s: gone on with %d", name, len(got))
		}
	}
	if k.Apply(Entry{Tick: 10_000}); len(scan(k.Machine, from)) != 0 {
		t.Error("scanned what has fallen off")
	}
	hazards := 0
	for slot, more := uint32(0), true; more; more = slot != 0 {
		var part []Transaction
		part, slot = k.Scan(slot, 10, IDRange{}, all)
		hazards += len(part)
	}
	if hazards != len(old) {
		t.Errorf("scanned %d records, want %d heuristic outcomes", hazards, len(old))
	}
}

// TestScanLooksIntoItsRangeAlone: the newest of many outcomes, or those before some, are found
// without reading the others.
func TestScanLooksIntoItsRangeAlone(t *testing.T) {
	const all = 20_000
	m := bootstrapped(t)
	for i := range uint64(all) {
		m.Apply(Entry{Tick: survival.Tick(i / 100), Commands: []Command{
			Begin{ID: testID(i + 1), Timeout: time.Second, Expiry: 1 << 40}, Rollback{ID: testID(i + 1), Cause: txn.CauseClient},
		}})
	}
	for name, r := range map[string]IDRange{
		"the newest":   {After: testID(all - 100)},
		"the middle":   {After: testID(all/2 - 100), Before: testID(all / 2)},
		"up to a few":  {Before: testID(100)},
		"none of them": {After: testID(all)},
	} {
		looked, inside, found := 0, 0, 0
		for from, more := (RetainedCursor{}), true; more; more = from != (RetainedCursor{}) {
			var part []Transaction
			part, from = m.ScanRetained(from, 50, r, func(b Summary) bool {
				looked++
				return true
			})
			found += len(part)
		}
		for i := range uint64(all) {
			if r.Contains(testID(i + 1)) {
				inside++
			}
		}
		if found != inside || looked != inside || inside > 100 {
			t.Errorf("%s: found %d and looked at %d of %d", name, found, looked, inside)
		}
		steps := 0
		for from, more := (RetainedCursor{}), true; more; more = from != (RetainedCursor{}) {
			_, from = m.ScanRetained(from, 1, r, func(Summary) bool { return true })
			steps++
		}
		if chunks := len(m.retained.snapshotChunks()); steps > chunks+1 || chunks < 10 {
			t.Errorf("%s: %d steps over %d chunks", name, steps, chunks)
		}
	}
}

// TestExpiringComesFromTheIndex: in the order of their ends, and only as many as the limit
// allows to examine.
func TestExpiringComesFromTheIndex(t *testing.T) {
	m := bootstrapped(t, "bank")
	for i := range uint64(10) {
		m.Apply(Entry{Commands: []Command{Begin{ID: testID(i + 1), Timeout: time.Second, Expiry: survival.Tick(100 - 10*i), Branches: []Branch{{Participant: "bank"}}}}})
	}
	m.Apply(Entry{Commands: []Command{Delegate{ID: testID(10), Branch: 1}, Rollback{ID: testID(9), Cause: txn.CauseClient}}})
	all := func(Summary) bool { return true }
	found, ok := m.Expiring(50, 3, IDRange{}, all)
	if !ok || len(found) != 3 || found[0].ID != testID(8) || found[1].ID != testID(7) || found[2].ID != testID(6) || len(found[0].Branches) != 1 {
		t.Errorf("%v, %+v", ok, found)
	}
	if found, ok := m.Expiring(50, 3, IDRange{}, func(b Summary) bool { return b.Expiry == 40 }); !ok || len(found) != 1 || found[0].ID != testID(7) {
		t.Errorf("of one: %v, %+v", ok, found)
	}
	if found, ok := m.Expiring(50, 2, IDRange{}, all); ok || len(found) != 0 {
		t.Errorf("more than may be looked at: %+v", found)
	}
	if found, ok := m.Expiring(29, 1, IDRange{}, all); !ok || len(found) != 0 {
		t.Errorf("before the first: %v, %+v", ok, found)
	}
}
