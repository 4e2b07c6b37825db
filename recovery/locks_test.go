package recovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// fakeLockInspector is a participant that can inspect the locks of everything prepared in it.
type fakeLockInspector struct {
	*fakeParticipant
	held []participant.PreparedDetails
	err  error
	hook func() // after the inspection
}

func (s *fakeLockInspector) InspectLocks(ctx context.Context) ([]participant.PreparedDetails, error) {
	if s.hook != nil {
		defer s.hook()
	}
	if s.err != nil {
		return nil, s.err
	}
	return s.held, ctx.Err()
}

// everything makes the inspector return what is prepared now.
func (s *fakeLockInspector) everything() {
	s.held = nil
	for _, xid := range slices.Sorted(maps.Keys(s.prepared)) {
		s.held = append(s.held, participant.PreparedDetails{Prepared: participant.Prepared{XID: xid, Owner: "app"}})
	}
}

func TestSurvey(t *testing.T) {
	log := newLog()
	s := &fakeLockInspector{fakeParticipant: newParticipant(log, "a")}
	log.parts["a"] = s
	r := begin(t, Config{}, log)
	active, unknown, gone, orphaned := txn.XID(cluster, idOf(1), 1), txn.XID(cluster, idOf(2), 1), txn.XID(cluster, idOf(3), 1), txn.XID(cluster, idOf(4), 1)
	log.put(idOf(1), txn.Active, "a")
	log.put(idOf(4), txn.Committing, "a")
	s.prepare(active)
	s.prepare(unknown)
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	held := func(xid string, g bool, locks ...string) participant.PreparedDetails {
		return participant.PreparedDetails{Prepared: participant.Prepared{XID: xid, Since: since, Owner: "dba"}, Orphaned: g, Locks: locks}
	}
	s.held = []participant.PreparedDetails{
		held(txn.XID("c2", idOf(5), 1), false, "table stock: row exclusive"),
		held(active, false, "table account: row\nexclusive"),
		held("pg_gid_7", false),
		held(orphaned, true, "table stock"),
		held("", true),
		held(gone, false),
	}
	s.held[1].Waiters = []string{"session 7: update account, password=hunter2"}
	finding := func(xid, owner, verdict string) admin.ScanResult {
		f := admin.ScanResult{Participant: "a", XID: xid, Owner: owner, Class: verdict}
		if k, ours := r.parse(xid); ours {
			f.ID, f.Branch = k.TX, k.Branch
		}
		if owner == "dba" {
			f.Since = since
		}
		return f
	}
	want := []admin.ScanResult{
		finding(unknown, "app", "rollback"), finding(active, "app", "leave"),
		finding(orphaned, "dba", "orphaned-locks"), finding("", "dba", "orphaned-locks"),
		finding(txn.XID("c2", idOf(5), 1), "dba", "foreign"), finding("pg_gid_7", "dba", "foreign"),
	}
	want[1].State, want[1].Locks = txn.Active, []string{"table account: row exclusive"}
	want[1].Waiters = []string{"session 7: update account, password=***"}
	want[2].State, want[2].Locks, want[2].Error = txn.Committing, []string{"table stock"}, orphanedLocksHelp
	want[3].Error = orphanedLocksHelp
	want[4].Locks = []string{"table stock: row exclusive"}
	got, err := r.InspectLocks(t.Context(), "a")
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	if n := len(s.made()); n != 0 || s.held == nil || s.fakeParticipant.preparedCount() != 2 {
		t.Errorf("a survey made %d calls, and left %d prepared", n, s.fakeParticipant.preparedCount())
	}
	// A participant without the method is asked what a sweep asks.
	log.parts["a"] = s.fakeParticipant
	if got, err := r.InspectLocks(t.Context(), "a"); err != nil || len(got) != 2 {
		t.Errorf("%v, %+v", err, got)
	}
}

// TestSurveyFails: the results of the sweep are returned all the same.
func TestSurveyFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		s := &fakeLockInspector{fakeParticipant: newParticipant(log, "a"), err: errors.New("permission denied for view innodb_trx, token=abcdef")}
		log.parts["a"] = s
		r := begin(t, Config{}, log)
		s.prepare(txn.XID(cluster, idOf(1), 1))
		fs, err := r.InspectLocks(t.Context(), "a")
		if err == nil || !strings.HasPrefix(err.Error(), "inspect locks of a: read its locks: permission denied") || len(fs) != 1 {
			t.Errorf("%v, %+v", err, fs)
		}
		s.err = nil
		s.hook = func() { panic("nil map") }
		if fs, err := r.InspectLocks(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "panicked") || len(fs) != 1 {
			t.Errorf("%v, %+v", err, fs)
		}
		s.hook = func() { sleep(t.Context(), time.Minute) } // beyond its time, and an answer nevertheless
		if fs, err := r.InspectLocks(t.Context(), "a"); err != nil || len(fs) != 1 {
			t.Errorf("%v, %+v", err, fs)
		}
		s.hook, s.listErr = nil, errDown
		if fs, err := r.InspectLocks(t.Context(), "a"); err == nil || fs != nil {
			t.Errorf("%v, %+v", err, fs)
		}
		s.listErr, s.held = nil, []participant.PreparedDetails{{Prepared: participant.Prepared{XID: txn.XID(cluster, idOf(9), 1)}, Orphaned: true}}
		s.fakeParticipant.mu.Lock()
		clear(s.prepared) // so that the sweep itself does not ask the log
		s.fakeParticipant.mu.Unlock()
		log.with(func() { log.lookupErr = errNoLeader })
		if fs, err := r.InspectLocks(t.Context(), "a"); err == nil || len(fs) != 1 || fs[0].Class != "orphaned-locks" {
			t.Errorf("%v, %+v", err, fs)
		}
		r.Stop()
		if _, err := r.InspectLocks(t.Context(), "a"); !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("after Stop: %v", err)
		}
	})
}

// TestSurveyLimits: a participant full of branches of others does not fill the answer.
func TestSurveyLimits(t *testing.T) {
	log := newLog()
	s := &fakeLockInspector{fakeParticipant: newParticipant(log, "a")}
	log.parts["a"] = s
	many := strings.Split(strings.Repeat("table t"+strings.Repeat("x", 400)+";", 100), ";")
	for n := range 500 {
		s.held = append(s.held,
			participant.PreparedDetails{Prepared: participant.Prepared{XID: fmt.Sprintf("orphaned%d", n)}, Orphaned: true},
			participant.PreparedDetails{Prepared: participant.Prepared{XID: fmt.Sprintf("foreign\x1b[1m%d", n)}, Locks: many, Waiters: many},
			participant.PreparedDetails{Prepared: participant.Prepared{XID: txn.XID(cluster, idOf(n+1), 1)}, Orphaned: true})
		s.prepare(txn.XID(cluster, idOf(n+1001), 1))
	}
	r := begin(t, Config{SweepLimit: 40}, log)
	fs, err := r.InspectLocks(t.Context(), "a")
	count := make(map[string]int)
	for _, f := range fs {
		count[f.Class]++
		if strings.HasPrefix(f.XID, "orphaned") && f.Class != "orphaned-locks" {
			t.Fatalf("orphaned locks have the class %v", f.Class)
		}
		for _, line := range append(f.Locks, f.Waiters...) {
			if len(line) > maxText {
				t.Fatalf("a line of %d bytes", len(line))
			}
		}
		if len(f.Locks) > 21 || len(f.Waiters) > 21 || strings.ContainsRune(f.XID, '\x1b') {
			t.Fatalf("%d locks, %d waiters, %q", len(f.Locks), len(f.Waiters), f.XID)
		}
	}
	if diff := cmp.Diff(map[string]int{"rollback": 40, "orphaned-locks": 40, "foreign": 40}, count); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}

// TestClustersOnOneResource: two clusters sweep one database for a minute. Each ends
// its own branches, sees the other's as foreign, and touches none of them.
func TestClustersOnOneResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tags := []string{"c1", "c10"}
		logs := []*fakeLog{newLog(), newLog()}
		s := &fakeLockInspector{fakeParticipant: newParticipant(logs[0], "a")}
		var rs []*Recovery
		for i, log := range logs {
			log.parts["a"] = s
			rs = append(rs, begin(t, Config{Cluster: tags[i], SweepEvery: 5 * time.Second, Rand: seeded(uint64(i))}, log))
		}
		var live []string
		for i, tag := range tags {
			for n := range 5 {
				id := idOf(i*100 + n + 1)
				logs[i].put(id, txn.Active, "a")
				s.prepare(txn.XID(tag, id, 1))
				live = append(live, txn.XID(tag, id, 1))
				s.prepare(txn.XID(tag, idOf(i*100+n+51), 1)) // left behind
			}
		}
		s.everything()
		for i := range tags {
			fs, err := rs[i].InspectLocks(t.Context(), "a")
			count := make(map[string]int)
			for _, f := range fs {
				count[f.Class]++
				if strings.HasPrefix(f.XID, txn.ClusterPrefix(tags[i])) == (f.Class == "foreign") || f.ID.IsZero() != (f.Class == "foreign") {
					t.Errorf("%s sees %+v", tags[i], f)
				}
			}
			if diff := cmp.Diff(map[string]int{"leave": 5, "rollback": 5, "foreign": 10}, count); diff != "" || err != nil {
				t.Errorf("%v, -want +got:\n%s", err, diff)
			}
		}
		sleep(t.Context(), time.Minute)
		s.everything()
		var left []string
		for _, h := range s.held {
			left = append(left, h.XID)
		}
		slices.Sort(live)
		if diff := cmp.Diff(live, left); diff != "" {
			t.Errorf("prepared in the end, -want +got:\n%s", diff)
		}
		if calls := s.made(); len(calls) != 10 {
			t.Errorf("%d calls for the 10 branches that were left behind", len(calls))
		}
	})
}
