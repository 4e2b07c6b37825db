package participant

import (
	"slices"
	"strings"

	"github.com/txmgr/txmgr/txn/admin"
)

// remedyCommands are the command lines for the calls of [admin.Check.Call]. PARTICIPANT is replaced by
// the participant that the call is made for; the first command that needs none, or whose
// participant is known, is used.
var remedyCommands = map[string][]string{
	admin.CallStatus:           {"txmgr status"},
	admin.CallDoctor:           {"txmgr doctor PARTICIPANT", "txmgr doctor"},
	admin.CallInDoubts:         {"txmgr indoubt list; txmgr indoubt explain TX"},
	admin.CallScan:             {"txmgr indoubt list; txmgr recover scan"},
	admin.CallList:             {"txmgr indoubt list; txmgr list --participant PARTICIPANT", "txmgr indoubt list; txmgr list --state active --older-than 1m"},
	admin.CallListParticipants: {"txmgr participant list"},
	admin.CallAddParticipant:   {"txmgr participant add PARTICIPANT"},
}

// withCommands adds to the remedies the commands to paste.
func withCommands(found []admin.Check) []admin.Check {
	out := slices.Clone(found)
	for i, d := range out {
		for _, command := range remedyCommands[d.Call] {
			if d.CallParticipant == "" && strings.Contains(command, "PARTICIPANT") {
				continue
			}
			out[i].Remedy = strings.TrimPrefix(d.Remedy+": "+strings.ReplaceAll(command, "PARTICIPANT", d.CallParticipant), ": ")
			break
		}
	}
	return out
}
