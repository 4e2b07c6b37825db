package recovery

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// fakeInspector is a participant that can be asked about a branch.
type fakeInspector struct {
	*fakeParticipant
	said  participant.BranchReport
	err   error
	asked int
}

func (w *fakeInspector) Inspect(context.Context, participant.Branch) (participant.BranchReport, error) {
	w.asked++
	return w.said, w.err
}

// TestUnknownIsNotRolledBackAgainstProof: the branch of an unknown transaction is
// rolled back unless there is proof that it was committed, or the proof cannot be
// asked for.
func TestUnknownIsNotRolledBackAgainstProof(t *testing.T) {
	for _, c := range []struct {
		name string
		said participant.BranchReport
		err  error
		want admin.ScanResult
	}{
		{"no proof", participant.BranchReport{Prepared: true}, nil, admin.ScanResult{Class: "rollback", Done: true}},
		{
			"committed once",
			participant.BranchReport{Prepared: true, Outcome: participant.Committed, Detail: "row in txmgr_ended"},
			nil,
			admin.ScanResult{Class: "leave", Error: "prepared, although there is proof that it was committed once (row in txmgr_ended): " +
				"compare with the other participants, and end it there by hand"},
		},
		{"cannot be asked", participant.BranchReport{}, errDown, admin.ScanResult{
			Class: "rollback", Error: "ask for proof of its end before rolling it back: connection refused",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := newLog()
			w := &fakeInspector{fakeParticipant: newParticipant(log, "a"), said: c.said, err: c.err}
			log.parts["a"] = w
			c.want.Participant, c.want.XID, c.want.ID, c.want.Branch, c.want.Owner = "a", txn.XID(cluster, idOf(1), 1), idOf(1), 1, "app"
			w.prepare(c.want.XID)
			known := log.put(idOf(2), txn.RolledBack, "a")
			known.branches[0].finished = true
			w.prepare(txn.XID(cluster, idOf(2), 1))
			r := begin(t, Config{}, log)
			fs, err := r.Sweep(t.Context(), "a", true)
			if err != nil || len(fs) != 2 {
				t.Fatalf("%v, %+v", err, fs)
			}
			if diff := cmp.Diff(c.want, fs[0]); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if !fs[1].Done || w.asked != 1 {
				t.Errorf("asked %d times; a known transaction's: %+v", w.asked, fs[1])
			}
		})
	}
}

// TestUnknownAndOlderThanMemory: a branch that is prepared for longer than the log remembers
// decisions is left to the operator, and reported again and again.
func TestUnknownAndOlderThanMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		log.memory = time.Hour
		now := time.Now()
		var want []string
		for n, p := range []participant.Prepared{
			{},
			{Since: now},
			{Since: now.Add(-time.Hour + ClockSlack + time.Second)},
			{Since: now.Add(-24 * time.Hour), Age: time.Hour - 1}, // its clock stopped for a day
			{Since: now.Add(-time.Hour + ClockSlack)},             // its clock may be ahead
			{Since: now.Add(-time.Hour)},
			{Since: now.Add(-24 * time.Hour)},
			{Since: now.Add(30 * time.Minute), Age: time.Hour}, // its clock is ahead by far more
		} {
			p.XID = txn.XID(cluster, idOf(n+1), 1)
			res.listed = append(res.listed, p)
			want = append(want, []string{"rollback", "leave"}[n/4])
		}
		var told []string
		r := begin(t, Config{SweepEvery: time.Second, OnScanResult: func(f admin.ScanResult) {
			told = append(told, f.Class+f.Error)
		}}, log)
		fs, err := r.Sweep(t.Context(), "a", false)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range fs {
			got = append(got, f.Class)
			if (f.Class == "leave") != strings.HasPrefix(f.Error, "prepared for longer than the log remembers (1h0m0s)") {
				t.Errorf("%+v", f)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		sleep(t.Context(), 1500*time.Millisecond)
		r.Stop()
		if len(told) < 5 || !strings.Contains(fmt.Sprint(told), "may have been decided to commit") {
			t.Errorf("told: %q", told)
		}
		for _, v := range res.made() {
			if v.branch.TX.Compare(idOf(5)) >= 0 {
				t.Errorf("%v of %v", v.verb, v.branch.TX)
			}
		}
		if h := r.Health("a"); !h.Healthy {
			t.Errorf("%+v", h)
		}
	})
}
