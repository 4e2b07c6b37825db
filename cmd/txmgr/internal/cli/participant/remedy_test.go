package participant

import (
	"testing"

	"github.com/txmgr/txmgr/txn/admin"
)

func TestRemediesNameCommands(t *testing.T) {
	for _, c := range []struct {
		check admin.Check
		want  string
	}{
		{admin.Check{Remedy: "buy ink"}, "buy ink"},
		{admin.Check{Remedy: "buy ink", Call: "of a later release"}, "buy ink"},
		{admin.Check{Remedy: "see who leads", Call: admin.CallStatus}, "see who leads: txmgr status"},
		{admin.Check{Remedy: "see", Call: admin.CallDoctor, CallParticipant: "bank"}, "see: txmgr doctor bank"},
		{admin.Check{Remedy: "see", Call: admin.CallDoctor}, "see: txmgr doctor"},
		{admin.Check{Remedy: "see", Call: admin.CallInDoubts}, "see: txmgr indoubt list; txmgr indoubt explain TX"},
		{admin.Check{Remedy: "see", Call: admin.CallScan, CallParticipant: "bank"}, "see: txmgr indoubt list; txmgr recover scan"},
		{admin.Check{Remedy: "see", Call: admin.CallList}, "see: txmgr indoubt list; txmgr list --state active --older-than 1m"},
		{admin.Check{Remedy: "see", Call: admin.CallList, CallParticipant: "bank"}, "see: txmgr indoubt list; txmgr list --participant bank"},
		{admin.Check{Remedy: "see", Call: admin.CallListParticipants}, "see: txmgr participant list"},
		{admin.Check{Remedy: "correct", Call: admin.CallAddParticipant, CallParticipant: "bank"}, "correct: txmgr participant add bank"},
		{admin.Check{Remedy: "correct", Call: admin.CallAddParticipant}, "correct"},
	} {
		if got := withCommands([]admin.Check{c.check})[0].Remedy; got != c.want {
			t.Errorf("%+v: %q; want %q", c.check, got, c.want)
		}
	}
}
