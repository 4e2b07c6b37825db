package node

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// What is found about the coordinator is too little, or too slow, below or above
// these.
const (
	scarceDisk    = 1 << 30
	noDisk        = 100 << 20
	slowSync      = 20 * time.Millisecond
	syncSamples   = 9
	crowdedFiles  = 8 // tenths of the limit
	fewFiles      = 1024
	crowdedMemory = 8 // tenths of Config.MaxOpen
)

// examineSelf looks at the coordinator and its machine.
func (n *Node) examineSelf() []txn.Diagnosis {
	var all []txn.Diagnosis
	for _, look := range []func() participant.Diagnosis{
		n.examineReady, n.examineDisk, n.examineSync, n.examineFiles, n.examineLog, n.examineLoad,
		n.examineHazards, n.examineHealth, n.examineTime, examineVersion,
	} {
		d := look()
		all = append(all, txn.Diagnosis{Level: levelName(d.Level), Subject: d.Subject, Found: d.Found, Fix: d.Fix})
	}
	return all
}

func (n *Node) examineReady() participant.Diagnosis {
	d := participant.Diagnosis{Level: participant.Fine, Subject: "leader", Found: fmt.Sprintf("this node leads cluster %s since term %d, and decides", n.cluster(), n.raft.CurrentTerm())}
	if err := n.serves(); err != nil {
		d.Level, d.Found, d.Fix = participant.Failure, err.Error(), "txmgr status; read the server's own log"
	}
	return d
}

func (n *Node) examineDisk() participant.Diagnosis {
	left, size, err := diskSpace(n.conf.DataDir)
	d := participant.Diagnosis{Level: participant.Fine, Subject: "disk space"}
	switch {
	case err != nil:
		return cannotLook(d.Subject, err)
	case left < noDisk:
		d.Level = participant.Failure
	case left < scarceDisk, left < size/10:
		d.Level = participant.Warning
	}
	d.Found = fmt.Sprintf("%s of %s left for %s", bytesText(left), bytesText(size), n.conf.DataDir)
	if d.Level != participant.Fine {
		d.Found += "; the coordinator stops when a write of its log fails"
		d.Fix = fmt.Sprintf("make room on the file system of %s: df -h %[1]s", n.conf.DataDir)
	}
	return d
}

// examineSync measures what every decision waits for: a few bytes on their way to
// the disk.
func (n *Node) examineSync() participant.Diagnosis {
	took, err := syncTimes(n.conf.DataDir)
	if err != nil {
		return participant.Diagnosis{Level: participant.Failure, Subject: "disk latency", Found: "a file in the data directory cannot be written: " + err.Error(), Fix: "ls -ld " + n.conf.DataDir + "; df -h " + n.conf.DataDir}
	}
	slices.Sort(took)
	median, worst := took[len(took)/2], took[len(took)-1]
	d := participant.Diagnosis{
		Level: participant.Fine, Subject: "disk latency",
		Found: fmt.Sprintf("a small write is on the disk after %v (median of %d; the slowest took %v)", median.Round(time.Microsecond), len(took), worst.Round(time.Microsecond)),
	}
	if median > slowSync {
		d.Level = participant.Warning
		d.Found += "; every decision waits for two of them"
		d.Fix = "put the data directory on a local SSD that nobody else keeps busy: txmgr server --data-dir DIR"
	}
	return d
}

func syncTimes(dir string) (took []time.Duration, err error) {
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

func (n *Node) examineFiles() participant.Diagnosis {
	used, limit, err := descriptors()
	d := participant.Diagnosis{Level: participant.Fine, Subject: "open files", Found: fmt.Sprintf("%d of %d file descriptors are used", used, limit)}
	switch {
	case err != nil:
		return cannotLook(d.Subject, err)
	case uint64(used)*10 >= limit*crowdedFiles:
		d.Level = participant.Failure
		d.Found += ": soon no client and no participant can connect"
	case limit < fewFiles:
		d.Level = participant.Warning
		d.Found += ": every client and every call to a participant needs one"
	}
	if d.Level != participant.Fine {
		d.Fix = "ulimit -n 65536, before the server starts; under systemd: LimitNOFILE=65536"
	}
	return d
}

func (n *Node) examineLog() participant.Diagnosis {
	st, err := n.storage.log.Stats()
	d := participant.Diagnosis{Level: participant.Fine, Subject: "log"}
	switch {
	case err != nil:
		return cannotLook(d.Subject, err)
	case st.Compaction != nil:
		d.Level = participant.Warning
		d.Found = fmt.Sprintf("the file has %s, of which %s are free, and could not be made smaller at the start: %v", bytesText(uint64(st.FileBytes)), bytesText(uint64(st.FreeBytes)), st.Compaction)
		d.Fix = "make room for a second copy of it, then restart the coordinator: df -h " + n.conf.DataDir
	default:
		d.Found = fmt.Sprintf("%d entries, in a file of %s, of which %s are free for new ones", st.Entries, bytesText(uint64(st.FileBytes)), bytesText(uint64(st.FreeBytes)))
	}
	return d
}

func (n *Node) examineLoad() participant.Diagnosis {
	held, most := n.held.Load(), int64(n.conf.MaxOpen)
	d := participant.Diagnosis{Level: participant.Fine, Subject: "unfinished transactions", Found: fmt.Sprintf("%d of at most %d", held, most)}
	if held*10 >= most*crowdedMemory {
		d.Level = participant.Warning
		d.Found += ": further ones will be refused"
		d.Fix = "txmgr doubt list; txmgr list --state active --older-than 1m"
	}
	return d
}

func (n *Node) examineHazards() participant.Diagnosis {
	var c machine.Counts
	n.fsm.View(func(m *machine.Machine) { c = m.Counts() })
	d := participant.Diagnosis{Level: participant.Fine, Subject: "hazards", Found: "no branch is known to have ended otherwise than decided"}
	if c.Hazards > 0 {
		d.Level = participant.Warning
		d.Found = fmt.Sprintf("transactions with a branch that ended, or may have ended, otherwise than decided: %d. They wait for a person", c.Hazards)
		d.Fix = "txmgr doubt list; txmgr doubt explain TX"
	}
	return d
}

// examineHealth says which participants fail now, as recovery has met them.
func (n *Node) examineHealth() participant.Diagnosis {
	d := participant.Diagnosis{Level: participant.Fine, Subject: "participants"}
	names := log{n}.Participants()
	var failing []string
	if r := n.recovery.Load(); r != nil {
		for _, name := range names {
			if h := r.Health(name); !h.Healthy {
				failing = append(failing, strings.TrimSuffix(name+": "+h.LastError, ": "))
			}
		}
	}
	if len(failing) == 0 {
		d.Found = fmt.Sprintf("none of %d fails", len(names))
		return d
	}
	const shown = 5
	d.Level = participant.Failure
	d.Found = fmt.Sprintf("%d of %d fail: %s", len(failing), len(names), strings.Join(failing[:min(len(failing), shown)], "; "))
	if more := len(failing) - shown; more > 0 {
		d.Found += fmt.Sprintf("; and %d more", more)
	}
	name, _, _ := strings.Cut(failing[0], ":")
	d.Fix = "txmgr doctor " + name
	return d
}

// examineTime says why nobody has to look after clocks.
func (n *Node) examineTime() participant.Diagnosis {
	tick, _ := n.clock.now()
	return participant.Diagnosis{
		Level: participant.Fine, Subject: "timeouts",
		Found: fmt.Sprintf("deadlines are ticks of %v in the log (now %d), counted on a monotonic clock: a wall clock that is wrong, or jumps, moves none of them", n.interval(), tick),
	}
}

func examineVersion() participant.Diagnosis {
	return participant.Diagnosis{
		Level: participant.Fine, Subject: "version",
		Found: fmt.Sprintf("txmgr %s, %s, %s/%s, %d processors", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0)),
	}
}

// cannotLook is the finding about something that cannot be looked at.
func cannotLook(subject string, err error) participant.Diagnosis {
	if unsupported(err) {
		return participant.Diagnosis{Level: participant.Fine, Subject: subject, Found: "cannot be looked at on " + runtime.GOOS}
	}
	return participant.Diagnosis{Level: participant.Warning, Subject: subject, Found: "cannot be looked at: " + err.Error()}
}

// bytesText gives a size for people.
func bytesText(n uint64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
