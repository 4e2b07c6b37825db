package cluster

import (
	"errors"
	"testing"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

func TestReadyMeansALeaderAndHealthyParticipants(t *testing.T) {
	well := txn.ParticipantStatus{Participant: txn.Participant{Name: "bank"}, Healthy: true}
	sick := txn.ParticipantStatus{Participant: txn.Participant{Name: "stock"}, LastError: "connection refused"}
	for name, c := range map[string]struct {
		status txn.Status
		cause  string // empty: ready
	}{
		"leads":           {txn.Status{Leader: true, Participants: []txn.ParticipantStatus{well}}, ""},
		"knows a leader":  {txn.Status{LeaderID: "n_1"}, ""},
		"no leader":       {txn.Status{Participants: []txn.ParticipantStatus{well}}, "no leader"},
		"one is not well": {txn.Status{Leader: true, Participants: []txn.ParticipantStatus{well, sick}}, "1 participant is not healthy: stock: connection refused"},
	} {
		err := notReadyFailure(c.status)
		if c.cause == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var f *output.Failure
		if !errors.As(err, &f) || f.Code != txn.CodeUnhealthy || f.Error() != c.cause {
			t.Errorf("%s: %v", name, err)
		}
	}
}
