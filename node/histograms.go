package node

import (
	"time"

	"github.com/txmgr/txmgr/internal/buildversion"
	"github.com/txmgr/txmgr/internal/latency"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// measurements are what a node measures of itself.
type measurements struct {
	started    time.Time
	timeoutLag *latency.Histogram
	callTimes  latency.Family // by participant
	timeoutLog timeoutLogger
}

func newMeasurements() measurements {
	return measurements{started: time.Now(), timeoutLag: latency.New(), timeoutLog: newTimeoutLogger()}
}

// Durations returns what this node has measured since it was opened.
func (n *Node) Durations() admin.DurationHistograms {
	var registered []string
	n.fsm.View(func(m *machine.Machine) {
		for _, p := range m.Participants() {
			if !p.Removed {
				registered = append(registered, p.Name)
			}
		}
	})
	return admin.DurationHistograms{
		TimeoutLag: n.measured.timeoutLag.Read(), Entries: n.proposals.EntryDurations(), Calls: n.measured.callTimes.Read(registered),
	}
}

// Version is the version of this program: the one stamped by the build, else the one that the go
// command recorded for the module, else "devel-" and the beginning of the program's SHA-256. So two
// builds can be distinguished while a cluster is upgraded, however they were made.
func Version() string { return buildversion.String() }
