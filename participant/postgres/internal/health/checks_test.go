package health

import (
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/participant"
)

func wantCheck(t *testing.T, d participant.Check, level participant.HealthLevel, found, fix string) {
	t.Helper()
	if d.Level != level || !strings.Contains(d.Message, found) || !strings.Contains(d.Remedy, fix) {
		t.Errorf("got %+v; want level %d, %q, fix %q", d, level, found, fix)
	}
}

// TestOldPreparedTransactionsAreReported: the cluster's own and those of others.
func TestOldPreparedTransactionsAreReported(t *testing.T) {
	since := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	f := &serverInfo{database: "bank", userName: "me", prepared: []preparedInfo{
		{owner: "me", database: "bank", ours: true, inThisDatabase: true, count: 2, oldest: "txm_a_1", since: since, age: 59 * time.Minute},
		{owner: "you", database: "shop", count: 3, oldest: "it's", since: since, age: 2 * time.Hour},
	}}
	d := f.checkAge()
	wantCheck(t, d, participant.Warning, "3 that are not this cluster's in database shop, by user you, the oldest 'it''s' since 2026-11-21T09:30:00Z", "in database shop as you: ROLLBACK PREPARED 'it''s';")
	if strings.Contains(d.Message, "txm_a_1") {
		t.Errorf("got %+v", d)
	}
	f.prepared[0].age = time.Hour
	wantCheck(t, f.checkAge(), participant.Warning, "2 of this cluster in database bank, the oldest 'txm_a_1'", "why this cluster's are not finished")
	f.prepared = f.prepared[:0]
	wantCheck(t, f.checkAge(), participant.OK, "none is older than 1h", "")

	f.prepared = append(f.prepared, preparedInfo{database: "shop", ours: true, count: 1, age: forgottenAge})
	wantCheck(t, f.checkOtherDatabases(), participant.OK, "1 in shop", "each is registered")
	f.prepared[0].age++
	wantCheck(t, f.checkOtherDatabases(), participant.Warning, "1 in shop", "each is registered")

	wantCheck(t, (&serverInfo{version: "12.3", versionNumber: 120003}).checkVersion(), participant.Failure, "PostgreSQL 12.3", "13 or later")
	wantCheck(t, (&serverInfo{standby: true}).checkWritable(), participant.Failure, "standby", "target_session_attrs=read-write")
}
