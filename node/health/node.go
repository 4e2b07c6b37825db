package health

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/raftfsm/logstore"
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn/admin"
)

// highOpenUsage is the part of [NodeFacts.MaxOpen], in tenths, from which a check warns.
const highOpenUsage = 8

// NodeFacts is what a node knows of itself at the moment of the checks.
type NodeFacts struct {
	Version    string
	DataDir    string
	Cluster    string
	Term       uint64
	NotLeading error // why the node does not lead, nil if it does

	Log    logstore.Stats
	LogErr error // why there are no figures of the log

	Unfinished, MaxOpen int64 // transactions
	Heuristics          int   // transactions with a heuristic outcome

	Interval time.Duration
	Tick     survival.Tick

	Participants int // how many are registered
	Failing      []FailingParticipant
}

// FailingParticipant is a participant that fails now, by recovery's calls.
type FailingParticipant struct{ Name, LastError string }

// check runs the checks of the node and its host.
func (f *NodeFacts) check() []admin.Check {
	return publicChecks("", []participant.Check{
		f.checkLeader(), checkDiskSpace(f.DataDir), checkDiskLatency(f.DataDir), checkOpenFiles(), f.checkLog(), f.checkUnfinished(),
		f.checkHeuristics(), f.checkFailing(), f.checkTimeouts(), f.checkVersion(),
	})
}

func (f *NodeFacts) checkLeader() participant.Check {
	d := participant.Check{Level: participant.OK, Subject: "leader", Message: fmt.Sprintf("this node leads cluster %s since term %d, and decides", f.Cluster, f.Term)}
	if err := f.NotLeading; err != nil {
		d.Level, d.Message, d.Remedy, d.Call = participant.Failure, err.Error(), "read the server's own log, and see who leads", admin.CallStatus
	}
	return d
}

func (f *NodeFacts) checkLog() participant.Check {
	st := f.Log
	d := participant.Check{Level: participant.OK, Subject: "log"}
	switch {
	case f.LogErr != nil:
		return skippedCheck(d.Subject, f.LogErr)
	default:
		d.Message = fmt.Sprintf("%d entries, in files of %s, of which %s are free for new ones", st.Entries, formatBytes(uint64(st.FileBytes)), formatBytes(uint64(st.FreeBytes)))
	}
	return d
}

func (f *NodeFacts) checkUnfinished() participant.Check {
	unfinished, most := f.Unfinished, f.MaxOpen
	d := participant.Check{Level: participant.OK, Subject: "unfinished transactions", Message: fmt.Sprintf("%d of at most %d", unfinished, most)}
	if unfinished*10 >= most*highOpenUsage {
		d.Level = participant.Warning
		d.Message += ": further ones will be refused"
		d.Remedy, d.Call = "find those that do not complete, or are undecided for long", admin.CallList
	}
	return d
}

func (f *NodeFacts) checkHeuristics() participant.Check {
	d := participant.Check{Level: participant.OK, Subject: "heuristic outcomes", Message: "no branch is known to have ended otherwise than decided"}
	if f.Heuristics > 0 {
		d.Level = participant.Warning
		d.Message = fmt.Sprintf("transactions with a branch that ended, or may have ended, otherwise than decided: %d. An operator must resolve or forget them", f.Heuristics)
		d.Remedy, d.Call = "resolve or forget each", admin.CallInDoubts
	}
	return d
}

// checkFailing lists the participants that fail now, by recovery's calls.
func (f *NodeFacts) checkFailing() participant.Check {
	d := participant.Check{Level: participant.OK, Subject: "participants"}
	if len(f.Failing) == 0 {
		d.Message = fmt.Sprintf("none of %d fails", f.Participants)
		return d
	}
	const shown = 5
	var texts []string
	for _, p := range f.Failing[:min(len(f.Failing), shown)] {
		texts = append(texts, strings.TrimSuffix(p.Name+": "+p.LastError, ": "))
	}
	d.Level = participant.Failure
	d.Message = fmt.Sprintf("%d of %d fail: %s", len(f.Failing), f.Participants, strings.Join(texts, "; "))
	if more := len(f.Failing) - shown; more > 0 {
		d.Message += fmt.Sprintf("; and %d more", more)
	}
	d.Remedy, d.Call, d.CallParticipant = "see what is wrong there", admin.CallDoctor, f.Failing[0].Name
	return d
}

// checkTimeouts states why no wall clock needs attention.
func (f *NodeFacts) checkTimeouts() participant.Check {
	return participant.Check{
		Level: participant.OK, Subject: "timeouts",
		Message: fmt.Sprintf("deadlines are ticks of %v in the log (now %d), counted on a monotonic clock: a wall clock that is wrong, or jumps, moves none of them", f.Interval, f.Tick),
	}
}

func (f *NodeFacts) checkVersion() participant.Check {
	return participant.Check{
		Level: participant.OK, Subject: "version",
		Message: fmt.Sprintf("txmgr %s, %s, %s/%s, %d processors", f.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0)),
	}
}
