package repair

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

func TestAllowedActionsHaveCommands(t *testing.T) {
	id, err := txn.ParseID("tx_01k9x3v7h2m8qf4r6t0bz5n1de")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		admin.ActionRetry:    "txmgr indoubt retry tx_01k9x3v7h2m8qf4r6t0bz5n1de",
		admin.ActionCommit:   "txmgr indoubt resolve tx_01k9x3v7h2m8qf4r6t0bz5n1de --commit --reason '...'",
		admin.ActionRollback: "txmgr indoubt resolve tx_01k9x3v7h2m8qf4r6t0bz5n1de --rollback --reason '...'",
		admin.ActionForget:   "txmgr indoubt forget tx_01k9x3v7h2m8qf4r6t0bz5n1de --reason '...'",
		"of a later release": "",
	} {
		if got := actionCommand(admin.Action{Name: name, Allowed: true}, id); got != want {
			t.Errorf("%s: %q; want %q", name, got, want)
		}
		if got := actionCommand(admin.Action{Name: name}, id); got != "" {
			t.Errorf("%s, refused: %q", name, got)
		}
	}
	e := normalizeExplanation(admin.Explanation{Transaction: txn.Info{ID: id}, Actions: []admin.Action{{Name: admin.ActionRetry, Allowed: true, Why: "w"}}})
	text, err := json.Marshal(withCommands(e))
	want := `"actions":[{"name":"retry","allowed":true,"why":"w","command":"txmgr indoubt retry tx_01k9x3v7h2m8qf4r6t0bz5n1de"}]`
	if err != nil || strings.Count(string(text), `"actions":`) != 1 || !strings.Contains(string(text), want) {
		t.Errorf("%s, %v", text, err)
	}
}
