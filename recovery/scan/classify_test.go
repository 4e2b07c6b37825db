package scan

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
)

// TestPreparedFor: by the participant's own measure, by its clock, or else since the begin.
func TestPreparedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		k := plan.Key{TX: txn.NewID(now.Add(-time.Hour), [9]byte{1}), Branch: 1}
		for want, p := range map[time.Duration]participant.Prepared{
			time.Second: {Age: time.Second, Since: now.Add(-time.Minute)},
			time.Minute: {Since: now.Add(-time.Minute)},
			time.Hour:   {},
		} {
			if got := preparedFor(preparedBranch{k, p}); got != want {
				t.Errorf("%+v: %v, want %v", p, got, want)
			}
		}
	})
}
