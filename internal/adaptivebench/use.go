package adaptivebench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Use is what the programs of an experiment took of the machine in a piece of its time:
// this one, which is the server and its users, and the database.
type Use struct {
	// At is its end, in seconds of the dissertation's time.
	At float64 `json:"at_seconds"`
	// CPU is how many processors were busy with them, on the average.
	CPU float64 `json:"processors"`
	// Written is what the database wrote to its files and this program caused to be
	// written to disk, in bytes per second.
	Written float64 `json:"written_bytes_per_second"`
}

// usageMetric is a quantity of it that a panel shows.
type usageMetric struct {
	title string
	of    func(Use) float64
}

var uses = []usageMetric{
	{"processors in use", func(u Use) float64 { return u.CPU }},
	{"written into files, MB in a second", func(u Use) float64 { return u.Written / 1e6 }},
}

// MeanUse is the use of the whole time; false if it is not known.
func (r Result) MeanUse() (Use, bool) {
	var mean Use
	from := 0.0
	for _, u := range r.Uses {
		mean.CPU += u.CPU * (u.At - from)
		mean.Written += u.Written * (u.At - from)
		from, mean.At = u.At, u.At
	}
	if mean.At == 0 {
		return Use{}, false
	}
	mean.CPU /= mean.At
	mean.Written /= mean.At
	return mean, true
}

// useEvery is how long a piece is at least: the kernel counts time in hundredths of a
// second, and reading it for a hundred processes is work, too.
const useEvery = time.Second

// meter reads what processes use, piece by piece.
type meter struct {
	database int // process id of the database server; 0 for none
	at       time.Duration
	before   resourceUse
	known    bool
}

func newMeter(database int) *meter {
	m := &meter{database: database}
	m.before, m.known = readResourceUse(database)
	return m
}

// read adds the piece that ends now, unless it is too short. scale is how many seconds
// of the dissertation one of the experiment stands for.
func (m *meter) read(all []Use, now time.Duration, scale float64) []Use {
	if !m.known || now-m.at < useEvery {
		return all
	}
	after, ok := readResourceUse(m.database)
	if !ok {
		return all
	}
	seconds := (now - m.at).Seconds()
	u := Use{
		At:  now.Seconds() * scale,
		CPU: max(0, after.cpu-m.before.cpu) / seconds, Written: max(0, after.written-m.before.written) / seconds,
	}
	m.at, m.before = now, after
	return append(all, u)
}

// resourceUse is what processes have used since they began: seconds and bytes.
type resourceUse struct{ cpu, written float64 }

// readResourceUse sums up this process, and the database's with its children; false where
// the kernel does not report it.
func readResourceUse(database int) (resourceUse, bool) {
	total, ok := resourceUseOf(os.Getpid(), false)
	if database == 0 || !ok {
		return total, ok
	}
	main, ok := resourceUseOf(database, true)
	total.cpu, total.written = total.cpu+main.cpu, total.written+main.written
	for child := range strings.FieldsSeq(fileText(fmt.Sprintf("/proc/%d/task/%d/children", database, database))) {
		if pid, err := strconv.Atoi(child); err == nil {
			s, _ := resourceUseOf(pid, true) // one that has just ended is counted by its parent
			total.cpu, total.written = total.cpu+s.cpu, total.written+s.written
		}
	}
	return total, ok
}

// hertz is the unit in which Linux reports times to programs, per second.
const hertz = 100

// resourceUseOf is the use of this process, or of one of the database's with those of its
// children that have ended. For the database, the bytes passed to write count: PostgreSQL talks
// to its clients by other calls. This program does not, so the bytes that it made dirty count;
// the kernel counts those by blocks of memory, which for small writes into large files are
// many times what was written.
func resourceUseOf(pid int, database bool) (resourceUse, bool) {
	bytes := "write_bytes"
	if database {
		bytes = "wchar"
	}
	seconds, ok := cpuIn(fileText(fmt.Sprintf("/proc/%d/stat", pid)), database)
	written, err := strconv.ParseFloat(field(fileText(fmt.Sprintf("/proc/%d/io", pid)), bytes), 64)
	return resourceUse{seconds, written}, ok && err == nil
}

// cpuIn reads the time of user and kernel from the kernel's line about a process, whose
// second field is a name in parentheses that may hold anything.
func cpuIn(stat string, ended bool) (float64, bool) {
	const user, behindName = 14, 3 // numbers of fields, from 1
	words := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	n := 2
	if ended {
		n = 4
	}
	if len(words) < user-behindName+n {
		return 0, false
	}
	ticks := 0.0
	for _, word := range words[user-behindName:][:n] {
		v, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return 0, false
		}
		ticks += v
	}
	return ticks / hertz, true
}
