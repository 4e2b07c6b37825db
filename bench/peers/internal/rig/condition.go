package rig

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Condition is the state of the machine to which the figures belong. Unknown texts are empty.
type Condition struct {
	Command string    `json:"command"`
	Date    time.Time `json:"date"`
	CPU     string    `json:"cpu"`
	CPUs    int       `json:"cpus"`
	Kernel  string    `json:"kernel"`
	Go      string    `json:"go"`
	Commit  string    `json:"commit"` // of the checkout; with suffix "-dirty" if files differ
	Dir     string    `json:"dir"`    // where the logs are written
	Disk    string    `json:"disk"`   // the file system there
	// LoadBefore and LoadAfter are the load averages of the last minute. The load of the program
	// itself is part of the second.
	LoadBefore string `json:"load_before"`
	LoadAfter  string `json:"load_after"`
	// Share is the use by other programs meanwhile; nil if it was not measured.
	Share *CPUShare `json:"share,omitempty"`
}

// RecordCondition begins a run whose files are written to dir.
func RecordCondition(dir string) Condition {
	return Condition{
		Command: strings.Join(append([]string{"<program>"}, os.Args[1:]...), " "),
		Date:    time.Now().UTC().Truncate(time.Second),
		CPU:     firstField("/proc/cpuinfo", "model name"), CPUs: runtime.NumCPU(),
		Kernel: release(), Go: runtime.Version(), Commit: commit(),
		Dir: dir, Disk: disk(dir), LoadBefore: loadAverage(),
	}
}

// Named sets the name of the program as its users call it.
func (c Condition) Named(program string) Condition {
	c.Command = strings.Replace(c.Command, "<program>", program, 1)
	return c
}

// End records the load at the end of the run.
func (c *Condition) End() { c.LoadAfter = loadAverage() }

// Print writes the condition as text.
func (c *Condition) Print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s\n%s, commit %s, %s\n%d × %s, Linux %s; logs on %s\nload average of the last minute: %s before, %s after\n",
		c.Command, c.Date.Format(time.RFC3339), c.Commit, c.Go, c.CPUs, c.CPU, c.Kernel, c.Disk, c.LoadBefore, c.LoadAfter)
	if err == nil && c.Share != nil {
		_, err = fmt.Fprintf(w, "other programs used %.0f %% of the processors meanwhile, the host took %.0f %%\n", 100*c.Share.Others, 100*c.Share.Stolen)
	}
	return err
}

func firstField(file, key string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	one, _, _ := strings.Cut(string(b), " ")
	return one
}

func release() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

func commit() string {
	b, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=10").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}

// disk names the file system: a log in memory must not be mistaken for one on a disk.
func disk(dir string) string {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return "unknown"
	}
	switch int64(s.Type) {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlayfs"
	case unix.TMPFS_MAGIC:
		return "tmpfs (memory: nothing here is durable, and the figures mean little)"
	}
	return fmt.Sprintf("file system %#x", s.Type)
}

func cpus() int { return runtime.NumCPU() }
