package participant

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Changes are reported, without secrets.
func TestDifferencesOfSettings(t *testing.T) {
	old := map[string]string{"dsn": "postgres://me:s3cret@h/bank", "quota": "100", "fence": "on", "url": "http://me:s3cret@h/", "same": "x"}
	now := map[string]string{"dsn": "postgres://me:0ther@h/bank", "quota": "50", "list": "/prepared", "url": "http://me:0ther@h/", "same": "x"}
	want := []string{
		"dsn changed (not shown)", `fence removed, was "on"`, `list added: "/prepared"`, `quota from "100" to "50"`, "url changed (not shown)",
	}
	if diff := cmp.Diff(want, settingChanges(old, now)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"dsn added: (not shown)"}, settingChanges(nil, map[string]string{"dsn": "x"})); diff != "" {
		t.Error(diff)
	}
	if got := settingChanges(old, old); got != nil {
		t.Errorf("the same: %q", got)
	}
}
