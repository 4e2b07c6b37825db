package adaptivebench

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// Conditions are where and how something was measured. Unknown values are
// empty, or negative for a part.
type Conditions struct {
	Began      time.Time     `json:"began"`
	Took       time.Duration `json:"took_ns"`
	Commit     string        `json:"commit"`
	Go         string        `json:"go"`
	Platform   string        `json:"platform"`
	CPUs       int           `json:"cpus"`
	Processor  string        `json:"processor"`
	Kernel     string        `json:"kernel"`
	PostgreSQL string        `json:"postgresql"`
	// LoadBefore is the load average of the minute before.
	LoadBefore string `json:"load_before"`
	// Idle is the unused part of the processors, Stolen the part that the
	// host of a virtual machine took, from 0 to 1.
	Idle   float64 `json:"idle"`
	Stolen float64 `json:"stolen"`
}

// Watch records the conditions of a measurement.
type Watch struct {
	conditions Conditions
	began      time.Time
	before     cpuTimes
}

// Begin is called before the measurement.
func Begin() Watch {
	return Watch{beginConditions(), time.Now(), readCPUTimes()}
}

// End is called after the measurement, and may be called again.
func (w Watch) End() Conditions {
	c := w.conditions
	c.Took = time.Since(w.began)
	if after := readCPUTimes(); after.total > w.before.total && w.before.total > 0 {
		all := after.total - w.before.total
		c.Idle, c.Stolen = (after.idle-w.before.idle)/all, (after.stolen-w.before.stolen)/all
	}
	return c
}

func beginConditions() Conditions {
	return Conditions{
		Began: time.Now().UTC().Truncate(time.Second), Commit: commit(), Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		Processor: field(fileText("/proc/cpuinfo"), "model name"), Kernel: strings.TrimSpace(fileText("/proc/sys/kernel/osrelease")),
		LoadBefore: firstWord(fileText("/proc/loadavg")), Idle: -1, Stolen: -1,
	}
}

// commit is the commit that this program was built from.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	revision, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(10, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = ", changed"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + changed
}

// cpuTimes is how the processors have spent their time, in the kernel's unit.
type cpuTimes struct{ total, idle, stolen float64 }

func readCPUTimes() cpuTimes { return parseCPUTimes(fileText("/proc/stat")) }

func parseCPUTimes(stat string) (p cpuTimes) {
	line, _, _ := strings.Cut(stat, "\n")
	words := strings.Fields(line)
	if len(words) < 9 || words[0] != "cpu" {
		return cpuTimes{}
	}
	for i, word := range words[1:9] { // guests are counted as users already
		n, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return cpuTimes{}
		}
		p.total += n
		switch i {
		case 3, 4: // idle, and idle while waiting for a disk
			p.idle += n
		case 7:
			p.stolen += n
		}
	}
	return p
}

// fileText is the text of a kernel file, empty where there is none.
func fileText(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}

// field is the first value of a name in lines of "name : value".
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func firstWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return word
}
