package health

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/txmgr/txmgr/participant"
)

// Limits below or above which a check of the host warns or fails.
const (
	lowDiskBytes      = 1 << 30
	criticalDiskBytes = 100 << 20
	slowSync          = 20 * time.Millisecond
	syncSamples       = 9
	highFileUsage     = 8 // tenths of the limit
	minFileLimit      = 1024
)

// checkDiskSpace looks at the file system of the data directory.
func checkDiskSpace(dir string) participant.Check {
	left, size, err := diskSpace(dir)
	d := participant.Check{Level: participant.OK, Subject: "disk space"}
	switch {
	case err != nil:
		return skippedCheck(d.Subject, err)
	case left < criticalDiskBytes:
		d.Level = participant.Failure
	case left < lowDiskBytes, left < size/10:
		d.Level = participant.Warning
	}
	d.Message = fmt.Sprintf("%s of %s left for %s", formatBytes(left), formatBytes(size), dir)
	if d.Level != participant.OK {
		d.Message += "; the coordinator stops when a write of its log fails"
		d.Remedy = fmt.Sprintf("make room on the file system of %s: df -h %[1]s", dir)
	}
	return d
}

// checkDiskLatency measures what every decision waits for: a small synchronous write.
func checkDiskLatency(dir string) participant.Check {
	took, err := measureSync(dir)
	if err != nil {
		return participant.Check{Level: participant.Failure, Subject: "disk latency", Message: "a file in the data directory cannot be written: " + err.Error(), Remedy: "ls -ld " + dir + "; df -h " + dir}
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
		d.Remedy = "put the data directory on a local SSD that no other program keeps busy"
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

func checkOpenFiles() participant.Check {
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

// skippedCheck is the result of a check that cannot be run.
func skippedCheck(subject string, err error) participant.Check {
	if errors.Is(err, errors.ErrUnsupported) {
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
