package history

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
)

// idOf makes the n-th id, n from 1.
func idOf(n int) txn.ID {
	var id txn.ID
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

// TestHistoryUnderStorm: however much fails at once, records are bounded, and each
// pending branch keeps at least its last.
func TestHistoryUnderStorm(t *testing.T) {
	var p Archive
	trails := make([]Attempts, recordLimit)
	for range 3 {
		for i := range trails {
			p.Add(&trails[i], Record{Action: plan.Commit, Failed: true, Result: "down"})
			if len(trails[i].records) == 0 {
				t.Fatal("the last attempt is not kept")
			}
		}
	}
	sum := 0
	for i := range trails {
		sum += len(trails[i].records)
		if all := len(trails[i].records) + trails[i].earlier; all != 3 {
			t.Fatalf("%d attempts are counted, want 3", all)
		}
	}
	if sum != p.liveRecords || p.liveRecords > recordLimit+len(trails) {
		t.Errorf("%d records, counted as %d", sum, p.liveRecords)
	}
	for i := range trails {
		id := idOf(i + 1)
		p.Finish(plan.Key{TX: id, Branch: 1}, &trails[i])
	}
	if p.liveRecords != 0 || len(p.finished) != historyLimit || p.order.Len() != historyLimit {
		t.Errorf("%d live records, %d transactions remembered", p.liveRecords, len(p.finished))
	}
	big := Attempts{anyFailed: true, records: make([]Record, attemptLogLimit)}
	for i := range 2 * historyLimit {
		for b := range txn.BranchID(64) {
			p.Retain(plan.Key{TX: idOf(1_000_000 + i), Branch: b + 1}, big)
			if p.finishedRecords > recordLimit {
				t.Fatalf("%d records are kept", p.finishedRecords)
			}
		}
	}
	if got := len(p.finished[idOf(1_000_000+2*historyLimit-1)]); got != 64 {
		t.Errorf("the newest transaction has %d branches", got)
	}
}

// TestAttemptLogsMerged: the newest 16 of both, in the order of their times, and the others are
// counted.
func TestAttemptLogsMerged(t *testing.T) {
	of := func(times ...int64) (c Attempts) {
		for _, at := range times {
			c.records = append(c.records, Record{At: at})
		}
		return c
	}
	times := func(c Attempts) (list []int64) {
		for _, r := range c.records {
			list = append(list, r.At)
		}
		return list
	}
	late, early := of(5, 7, 9), of(1, 5, 8)
	late.earlier, early.anyFailed = 2, true
	sum := late.Merge(early)
	if got := times(sum); !slices.Equal(got, []int64{1, 5, 5, 7, 8, 9}) || sum.earlier != 2 || !sum.anyFailed {
		t.Errorf("joined %v, %d earlier, bad %v", got, sum.earlier, sum.anyFailed)
	}
	if !slices.Equal(times(late), []int64{5, 7, 9}) {
		t.Errorf("the first has become %v", times(late))
	}
	many := of(1, 2, 3, 4, 5, 6, 7, 8, 9, 10).Merge(of(11, 12, 13, 14, 15, 16))
	if len(many.records) != 16 || many.earlier != 0 {
		t.Errorf("%d of 16 are kept, %d earlier", len(many.records), many.earlier)
	}
	if many = many.Merge(of(0, 17)); !slices.Equal(times(many), []int64{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}) || many.earlier != 2 {
		t.Errorf("kept %v, %d earlier", times(many), many.earlier)
	}
}

// TestRecordsAtTheirLimit: when the history is full, a branch keeps its last record alone.
func TestRecordsAtTheirLimit(t *testing.T) {
	p := Archive{liveRecords: recordLimit - 3}
	var a, b Attempts
	for range 3 {
		p.Add(&a, Record{})
	}
	if len(a.records) != 3 || p.liveRecords != recordLimit {
		t.Fatalf("%d records, %d live", len(a.records), p.liveRecords)
	}
	p.Add(&b, Record{})
	p.Add(&b, Record{})
	if len(b.records) != 1 || b.earlier != 1 || p.liveRecords != recordLimit+1 {
		t.Errorf("%d records and %d earlier, %d live", len(b.records), b.earlier, p.liveRecords)
	}
	if p.Add(&a, Record{}); len(a.records) != 4 && len(a.records) != 1 {
		t.Errorf("%d records", len(a.records))
	}
}
