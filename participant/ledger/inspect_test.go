package ledger

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

func examine(t *testing.T, path string) map[string]participant.Check {
	t.Helper()
	all := map[string]participant.Check{}
	for _, d := range openParticipant(t, path).(participant.HealthChecker).CheckHealth(t.Context()) {
		if d.Message == "" || all[d.Subject].Level != 0 {
			t.Errorf("got %+v", d)
		}
		all[d.Subject] = d
	}
	return all
}

func wantDiagnosis(t *testing.T, d participant.Check, level participant.HealthLevel, found string) {
	t.Helper()
	if d.Level != level || !strings.Contains(d.Message, found) || d.Level == participant.Failure && d.Subject != "content" && d.Remedy == "" {
		t.Errorf("got %+v; want level %d, %q", d, level, found)
	}
}

func TestHealth(t *testing.T) {
	l, path := newLedger(t)
	d := examine(t, path)
	wantDiagnosis(t, d["path"], participant.OK, "made when first used")
	wantDiagnosis(t, d["content"], participant.OK, "checksums")
	if _, err := os.Stat(path); err == nil {
		t.Error("to look at it made the file")
	}
	local(t, l, "set alice 123456789")
	d = examine(t, path)
	wantDiagnosis(t, d["path"], participant.OK, "can be written")
	if disk := d["disk"]; disk.Level == 0 || !strings.Contains(disk.Message, "are free") {
		t.Errorf("got %+v", disk)
	}

	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	value := seal(bucketAccounts, []byte("alice"), account{version: 1, balance: 123456789}.encode())
	broken := bytes.ReplaceAll(whole, value, append([]byte{value[0] ^ 1}, value[1:]...))
	if err := os.WriteFile(path, broken, 0o600); err != nil {
		t.Fatal(err)
	}
	d = examine(t, path)
	wantDiagnosis(t, d["content"], participant.Failure, `checksum of "alice"`)
	if !strings.Contains(d["content"].Remedy, "backup") {
		t.Errorf("got %+v", d["content"])
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}

	wantDiagnosis(t, examine(t, "/nowhere/ledger.db")["path"], participant.Failure, "no directory /nowhere")
	wantDiagnosis(t, examine(t, t.TempDir())["path"], participant.Failure, "cannot be written")
	empty := filepath.Join(t.TempDir(), "not-a-ledger")
	if err := os.WriteFile(empty, []byte(strings.Repeat("no ledger", 4096)), 0o600); err != nil {
		t.Fatal(err)
	}
	wantDiagnosis(t, examine(t, empty)["content"], participant.Failure, "invalid database")
}

func TestReadingANewLedgerMakesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	p := openParticipant(t, path)
	if list, err := p.(participant.LockInspector).InspectLocks(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	if told, err := p.(participant.Inspector).Inspect(t.Context(), participant.Branch{XID: txn.ClusterPrefix("test") + "1"}); err != nil || told.Outcome != 0 {
		t.Errorf("%+v, %v", told, err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("there is a file")
	}
}

func TestLocksOfALargeBranchAreShortened(t *testing.T) {
	_, path := newLedger(t)
	s := newBranchTx(newStore(path), txn.ClusterPrefix("test")+"1")
	for n := range 25 {
		do(t, s, fmt.Sprintf("add a%02d 1", n))
	}
	if vote, err := s.Prepare(t.Context()); vote != txn.VotePrepared {
		t.Fatal(vote, err)
	}
	list, err := openParticipant(t, path).(participant.LockInspector).InspectLocks(t.Context())
	if err != nil || len(list) != 1 || len(list[0].Locks) != maxLines || list[0].Locks[0] != "account a00" || list[0].Locks[maxLines-1] != "and 6 more" {
		t.Errorf("%+v, %v", list, err)
	}
}
