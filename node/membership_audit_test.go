package node

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// TestMembershipIsAudited: the audit trail has who had a node join, lead and leave, and why. It has
// nothing of what no operator asked for, and of what was not done: a join that changes nothing, a
// transfer to the node that leads, and the transfer before a leader leaves.
func TestMembershipIsAudited(t *testing.T) {
	addr := freePorts(t, 2)
	a := openMember(t, t.TempDir(), Cluster{Listen: addr[0], Name: "a", Expect: 1})
	leaderOf(t, a)
	b := openMember(t, t.TempDir(), Cluster{Listen: addr[1], Name: "b"})
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	long := strings.Repeat("r", txn.MaxReason+1)
	_, err := a.Admin().Join(t.Context(), addr[1], "ann", long)
	wantErr(t, "join", err, txn.ErrInvalid)
	wantErr(t, "transfer", a.Admin().TransferLeader(t.Context(), "", "ann", long), txn.ErrInvalid)
	wantErr(t, "leave", a.Admin().Leave(t.Context(), "ann", long), txn.ErrInvalid)

	_, err = a.Admin().Join(t.Context(), addr[1], "ann", " one more ")
	must("join", err)
	_, err = a.Admin().Join(t.Context(), addr[1], "ann", "once again")
	must("join of a member", err)
	waittest.Until(t, "the second node votes", func() bool { return a.cluster.Voters() == 2 })
	must("transfer to the leader", a.Admin().TransferLeader(t.Context(), "a", "bob", "it leads"))
	must("transfer", a.Admin().TransferLeader(t.Context(), "b", "bob", "maintenance"))
	leaderOf(t, b)
	must("leave", b.Admin().Leave(t.Context(), "eve", "moves out"))
	leaderOf(t, a)
	records, err := a.Admin().Audit(t.Context(), admin.AuditFilter{})
	must("audit", err)
	var did []string
	for _, r := range records {
		did = append(did, strings.Join([]string{r.Action, r.Subject, r.By, r.Reason}, " "))
		if time.Since(r.Time).Abs() > time.Hour || r.Index == 0 {
			t.Errorf("%+v", r)
		}
	}
	id := string(b.env.ID)
	want := []string{"member-add " + id + " ann one more", "leader-transfer-request " + id + " bob maintenance", "member-remove " + id + " eve moves out"}
	if d := cmp.Diff(want, did); d != "" {
		t.Errorf("audit (-want +got):\n%s", d)
	}
}
