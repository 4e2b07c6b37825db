package node

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// Limits below or above which a check of this node warns or fails.
const (
	lowDiskBytes      = 1 << 30
	criticalDiskBytes = 100 << 20
	slowSync          = 20 * time.Millisecond
	syncSamples       = 9
	highFileUsage     = 8 // tenths of the limit
	minFileLimit      = 1024
	highOpenUsage     = 8 // tenths of Config.MaxOpen
)

// checkNode runs the checks of this node and its host.
func (n *Node) checkNode() []admin.Check {
	var all []admin.Check
	for _, check := range []func() participant.Check{
		n.checkLeader, n.checkDiskSpace, n.checkDiskLatency, n.checkOpenFiles, n.checkLogFile, n.checkUnfinished,
		n.checkHeuristics, n.checkParticipantHealth, n.checkTimeouts, checkVersion,
	} {
		d := check()
		all = append(all, admin.Check{Level: levelName(d.Level), Subject: d.Subject, Message: d.Message, Remedy: d.Remedy})
	}
	return all
}

func (n *Node) checkLeader() participant.Check {
	d := participant.Check{Level: participant.OK, Subject: "leader", Message: fmt.Sprintf("this node leads cluster %s since term %d, and decides", n.clusterID(), n.raft.CurrentTerm())}
	if err := n.requireLeader(); err != nil {
		d.Level, d.Message, d.Remedy = participant.Failure, err.Error(), "txmgr status; read the server's own log"
	}
	return d
}

func (n *Node) checkDiskSpace() participant.Check {
	left, size, err := diskSpace(n.conf.DataDir)
	d := participant.Check{Level: participant.OK, Subject: "disk space"}
	switch {
	case err != nil:
		return skippedCheck(d.Subject, err)
	case left < criticalDiskBytes:
		d.Level = participant.Failure
	case left < lowDiskBytes, left < size/10:
		d.Level = participant.Warning
	}
	d.Message = fmt.Sprintf("%s of %s left for %s", formatBytes(left), formatBytes(size), n.conf.DataDir)
	if d.Level != participant.OK {
		d.Message += "; the coordinator stops when a write of its log fails"
		d.Remedy = fmt.Sprintf("make room on the file system of %s: df -h %[1]s", n.conf.DataDir)
	}
	return d
}

// checkDiskLatency measures what every decision waits for: a small synchronous write.
func (n *Node) checkDiskLatency() participant.Check {
	took, err := measureSync(n.conf.DataDir)
	if err != nil {
		return participant.Check{Level: participant.Failure, Subject: "disk latency", Message: "a file in the data directory cannot be written: " + err.Error(), Remedy: "ls -ld " + n.conf.DataDir + "; df -h " + n.conf.DataDir}
	}
	slices.Sort(took)
	median, worst := took[len(took)/2], took[len(took)-1]
	d := participant.Check{
		Level: participant.OK, Subject: "disk latency",
		Message: fmt.Sprintf("a small write is on the disk after %v (median of %d; the slowest took %v)", median.Round(time.Microsecond), len(took), worst.Round(time.Microsecond)),
	}
	if median > slowSync {
		d.Level = participant.Warning
		d.Message += "; every decision waits for two of them"
		d.Remedy = "put the data directory on a local SSD that no other program keeps busy: txmgr server --data-dir DIR"
	}
	return d
}

func measureSync(dir string) (took []time.Duration, err error) {
	f, err := os.CreateTemp(dir, "doctor-*.tmp")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	page := make([]byte, 4096)
	for i := range syncSamples {
		start := time.Now()
		if _, err := f.WriteAt(page, int64(i*len(page))); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}

func (n *Node) checkOpenFiles() participant.Check {
	used, limit, err := descriptors()
	d := participant.Check{Level: participant.OK, Subject: "open files", Message: fmt.Sprintf("%d of %d file descriptors are used", used, limit)}
	switch {
	case err != nil:
		return skippedCheck(d.Subject, err)
	case uint64(used)*10 >= limit*highFileUsage:
		d.Level = participant.Failure
		d.Message += ": soon no client and no participant can connect"
	case limit < minFileLimit:
		d.Level = participant.Warning
		d.Message += ": every client and every call to a participant needs one"
	}
	if d.Level != participant.OK {
		d.Remedy = "ulimit -n 65536, before the server starts; under systemd: LimitNOFILE=65536"
	}
	return d
}

func (n *Node) checkLogFile() participant.Check {
	st, err := n.env.log.Stats()
	d := participant.Check{Level: participant.OK, Subject: "log"}
	switch {
	case err != nil:
		return skippedCheck(d.Subject, err)
	case st.Compaction != nil:
		d.Level = participant.Warning
		d.Message = fmt.Sprintf("the file has %s, of which %s are free, and could not be made smaller at the start: %v", formatBytes(uint64(st.FileBytes)), formatBytes(uint64(st.FreeBytes)), st.Compaction)
		d.Remedy = "make room for a second copy of it, then restart the coordinator: df -h " + n.conf.DataDir
	default:
		d.Message = fmt.Sprintf("%d entries, in a file of %s, of which %s are free for new ones", st.Entries, formatBytes(uint64(st.FileBytes)), formatBytes(uint64(st.FreeBytes)))
	}
	return d
}

func (n *Node) checkUnfinished() participant.Check {
	unfinished, most := n.unfinished.Load(), int64(n.conf.MaxOpen)
	d := participant.Check{Level: participant.OK, Subject: "unfinished transactions", Message: fmt.Sprintf("%d of at most %d", unfinished, most)}
	if unfinished*10 >= most*highOpenUsage {
		d.Level = participant.Warning
		d.Message += ": further ones will be refused"
		d.Remedy = "txmgr indoubt list; txmgr list --state active --older-than 1m"
	}
	return d
}

func (n *Node) checkHeuristics() participant.Check {
	var c machine.Counts
	n.fsm.View(func(m *machine.Machine) { c = m.Counts() })
	d := participant.Check{Level: participant.OK, Subject: "heuristic outcomes", Message: "no branch is known to have ended otherwise than decided"}
	if c.Heuristics > 0 {
		d.Level = participant.Warning
		d.Message = fmt.Sprintf("transactions with a branch that ended, or may have ended, otherwise than decided: %d. An operator must resolve or forget them", c.Heuristics)
		d.Remedy = "txmgr indoubt list; txmgr indoubt explain TX"
	}
	return d
}

// checkParticipantHealth lists the participants that fail now, by recovery's calls.
func (n *Node) checkParticipantHealth() participant.Check {
	d := participant.Check{Level: participant.OK, Subject: "participants"}
	names := recoveryLog{n}.Participants()
	var failing []string
	if r := n.recovery.Load(); r != nil {
		for _, name := range names {
			if h := r.Health(name); !h.Healthy {
				failing = append(failing, strings.TrimSuffix(name+": "+h.LastError, ": "))
			}
		}
	}
	if len(failing) == 0 {
		d.Message = fmt.Sprintf("none of %d fails", len(names))
		return d
	}
	const shown = 5
	d.Level = participant.Failure
	d.Message = fmt.Sprintf("%d of %d fail: %s", len(failing), len(names), strings.Join(failing[:min(len(failing), shown)], "; "))
	if more := len(failing) - shown; more > 0 {
		d.Message += fmt.Sprintf("; and %d more", more)
	}
	name, _, _ := strings.Cut(failing[0], ":")
	d.Remedy = "txmgr doctor " + name
	return d
}

// checkTimeouts states why no wall clock needs attention.
func (n *Node) checkTimeouts() participant.Check {
	tick, _ := n.clock.Now()
	return participant.Check{
		Level: participant.OK, Subject: "timeouts",
		Message: fmt.Sprintf("deadlines are ticks of %v in the log (now %d), counted on a monotonic clock: a wall clock that is wrong, or jumps, moves none of them", n.interval(), tick),
	}
}

func checkVersion() participant.Check {
	return participant.Check{
		Level: participant.OK, Subject: "version",
		Message: fmt.Sprintf("txmgr %s, %s, %s/%s, %d processors", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0)),
	}
}

// skippedCheck is the result of a check that cannot be run.
func skippedCheck(subject string, err error) participant.Check {
	if isUnsupported(err) {
		return participant.Check{Level: participant.OK, Subject: subject, Message: "cannot be looked at on " + runtime.GOOS}
	}
	return participant.Check{Level: participant.Warning, Subject: subject, Message: "cannot be looked at: " + err.Error()}
}

// formatBytes formats a size for operators.
func formatBytes(n uint64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
