package main

import (
	"errors"
	"testing"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

func TestReadyMeansALeaderAndHealthyParticipants(t *testing.T) {
	well := admin.ParticipantStatus{Participant: admin.Participant{Name: "bank"}, Healthy: true}
	sick := admin.ParticipantStatus{Participant: admin.Participant{Name: "stock"}, LastError: "connection refused"}
	for name, c := range map[string]struct {
		status admin.Status
		cause  string // empty: ready
	}{
		"leads":           {admin.Status{Leader: true, Participants: []admin.ParticipantStatus{well}}, ""},
		"knows a leader":  {admin.Status{LeaderID: "n_1"}, ""},
		"no leader":       {admin.Status{Participants: []admin.ParticipantStatus{well}}, "no leader"},
		"one is not well": {admin.Status{Leader: true, Participants: []admin.ParticipantStatus{well, sick}}, "1 participant is not healthy: stock: connection refused"},
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
