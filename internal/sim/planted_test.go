package sim

import (
	"strings"
	"testing"
	"time"
)

// TestPlantedBugs plants bugs around the coordinator and checks that the simulation finds each, by
// the expected violation.
func TestPlantedBugs(t *testing.T) {
	for _, c := range []struct {
		name string
		bugs Bugs
		sign []string // any of these
	}{
		{"a disk that forgets what it had said was synced", Bugs{NoSync: true}, nil},
		{"a disk that forgets votes", Bugs{NoVotes: true}, nil},
		{"a snapshot that is older than it says", Bugs{OldSnapshot: true}, []string{"not the state that the log leads to", "not linearizable", "replay"}},
		{"an application that does not look at the command tag", Bugs{IgnoreTag: true}, []string{"bank: heuristic rolled-back"}},
		{"a participant that takes not-there for committed", Bugs{IgnoreTag: true, TrustNotThere: true}, []string{"has come about 0 times"}},
		{"a participant that believes XA COMMIT", Bugs{NoWait: true}, []string{"has come about 0 times", "stock holds"}},
		{"a service that forgets its promises", Bugs{ForgetPrepared: true}, []string{"post: heuristic", "has come about 0 times"}},
		{"reads from any node", Bugs{StaleReads: true}, []string{"not linearizable"}},
		{"signs of life that are answered and not passed on", Bugs{DropKeepAlives: true}, []string{"expired"}},
		{"clients that renew the mark of an id", Bugs{RenewMark: true}, []string{"and forgotten, lives again"}},
		{"an application that commits on its own", Bugs{EarlyCommit: true}, []string{"bank", "told"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const most = 600
			for seed := range uint64(most) {
				o := run(t, Plan{Seed: 7000 + seed, Bugs: c.bugs, FaultTime: 20 * time.Second})
				for _, v := range o.Violations {
					if len(c.sign) == 0 || containsAny(v, c.sign) {
						t.Logf("found by seed %d: %s", o.Seed, v)
						return
					}
				}
			}
			t.Errorf("not found by %d runs", most)
		})
	}
}

func containsAny(s string, of []string) bool {
	for _, o := range of {
		if strings.Contains(s, o) {
			return true
		}
	}
	return false
}
