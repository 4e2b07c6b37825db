package node

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/txn/admin"
)

// TestAuditOfParticipants: the audit records who registered, changed and removed a participant,
// why, and what changed; also after a restart and from a snapshot.
func TestAuditOfParticipants(t *testing.T) {
	dir, openers := t.TempDir(), func(c *Config) { c.Drivers = map[string]participant.Driver{ledger.Kind: ledger.Driver} }
	n, err := tryOpen(t, dir, openers)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	path := t.TempDir() + "/shelf.db"
	add := func(by, reason string, settings map[string]string) {
		t.Helper()
		if err := n.Admin().AddParticipant(ctx, admin.Participant{Name: "shelf", Kind: ledger.Kind, Settings: settings}, by, reason); err != nil {
			t.Fatal(err)
		}
	}
	add("ann", "new", map[string]string{"path": path})
	add("bob", "nothing changes", map[string]string{"path": path})
	add("bob", "too many", map[string]string{"path": path, "quota": "7"})
	if err := n.Admin().RemoveParticipant(ctx, "shelf", "ann", "not used"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"participant-add|ann|shelf: kind ledger, path " + path + "|new",
		"participant-add|bob|shelf: kind ledger, quota 7|too many",
		"participant-remove|ann|shelf|not used",
	}
	for _, snapshot := range []bool{false, true, false} {
		audit, err := n.Admin().Audit(ctx, admin.AuditFilter{Limit: 3})
		var got []string
		for _, a := range audit {
			got = append(got, fmt.Sprintf("%s|%s|%s|%s", a.Action, a.By, a.Subject, a.Reason))
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("audit, snapshot %v: %v\n%s", snapshot, err, diff)
		}
		if snapshot {
			if err := n.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		if n, err = tryOpen(t, dir, openers); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}
