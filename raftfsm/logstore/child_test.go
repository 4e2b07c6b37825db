package logstore

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
)

// The children of the crash tests. Each opens the store named by childPath and works on it, and
// prints what the store reported as durable. The parent kills, starves or traces it and then checks
// what is left.
const (
	childMode = "LOGSTORE_TEST_CHILD"
	childPath = "LOGSTORE_TEST_PATH"

	modeWrite = "write" // append for ever, truncate and vote now and then
	modeTurn  = "turn"  // the same without votes: all other files are segments
	modeFail  = "fail"  // append until the first error, and then try everything again
	modeFull  = "full"  // the same, with files that must not grow beyond fullBytes
	modeHold  = "hold"  // open and wait for the end of the input
)

const (
	fullBytes  = 300 << 10
	childSize  = 700 // bytes of an entry
	largeChild = 24 << 10
	childTrail = 50 // entries that a truncation leaves
)

func child(mode, path string) int {
	// strace counts calls per thread; the store writes on the goroutine that commits, but for the files that it fills
	// in advance.
	runtime.LockOSThread()
	out := bufio.NewWriter(os.Stdout)
	say := func(format string, args ...any) {
		fmt.Fprintf(out, format+"\n", args...)
		out.Flush()
	}
	s, err := Open(path, Options{OnFailure: func(err error) { say("failure %v", err) }})
	if err != nil {
		say("open %v", err)
		return 3
	}
	say("opened")
	switch mode {
	case modeWrite:
		return childWrite(s, say, true)
	case modeTurn:
		return childWrite(s, say, false)
	case modeFull:
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: fullBytes, Max: fullBytes}); err != nil {
			say("setrlimit %v", err)
			return 4
		}
		return childFail(s, say)
	case modeFail:
		return childFail(s, say)
	case modeHold:
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	}
	if err := s.Close(); err != nil {
		say("close %v", err)
		return 5
	}
	return 0
}

// childEntry is small or large by its index.
func childEntry(index uint64) *raft.Log {
	if index%17 == 0 {
		return entry(index, 1, largeChild)
	}
	return entry(index, 1, childSize)
}

// childWrite writes until it is killed.
func childWrite(s *Store, say func(string, ...any), votes bool) int {
	for {
		last, err := s.LastIndex()
		if err != nil {
			return 6
		}
		var logs []*raft.Log
		for i := last + 1; i <= last+1+last%3; i++ {
			logs = append(logs, childEntry(i))
		}
		if err := s.StoreLogs(logs); err != nil {
			return 7
		}
		say("ack %d", logs[len(logs)-1].Index)
		if last%20 == 0 && last > childTrail {
			if err := s.DeleteRange(1, last-childTrail); err != nil {
				return 8
			}
			say("first %d", last-childTrail+1)
		}
		if votes && last%11 == 0 {
			if err := s.SetUint64([]byte("CurrentTerm"), last); err != nil {
				return 9
			}
			say("term %d", last)
		}
	}
}

// childFail appends until the first error and then shows that nothing works any more.
func childFail(s *Store, say func(string, ...any)) int {
	for i := range 3000 {
		last, err := s.LastIndex()
		if err == nil {
			err = s.StoreLog(childEntry(last + 1))
		}
		if err == nil {
			say("ack %d", last+1)
			continue
		}
		say("error %v", err)
		for range 5 {
			for name, err := range callAll(s) {
				if err == nil {
					say("ack %s after an error", name)
				}
			}
		}
		say("stopped after %d", i)
		return 0
	}
	say("3000 entries without an error")
	return 10
}

// report is the output of a child.
type report struct {
	acked, first, term, acks uint64
	failures, errors         int
	opened, stopped, late    bool // late: something succeeded after the first error
	text                     string
}

func (r *report) read(line string) {
	r.text += line + "\n"
	word, rest, _ := strings.Cut(line, " ")
	var n uint64
	_, scanErr := fmt.Sscan(rest, &n)
	switch word {
	case "opened":
		r.opened = true
	case "ack":
		r.late = r.late || scanErr != nil || r.errors > 0
		r.acked = n
		r.acks++
	case "first":
		r.first = n
	case "term":
		r.term = n
	case "failure":
		r.failures++
	case "error":
		r.errors++
	case "stopped":
		r.stopped = true
	}
}

// wantAcked opens the file after the child's death and checks that everything acknowledged is
// there, and right. It returns the last index.
func (r *report) wantAcked(t *testing.T, path string) uint64 {
	t.Helper()
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatalf("after the crash: %v\n%s", err, r.text)
	}
	defer closeStore(t, s)
	first, _ := s.FirstIndex()
	last, _ := s.LastIndex()
	if last < r.acked || last > r.acked+3 {
		t.Errorf("last entry is %d, acknowledged was %d", last, r.acked)
	}
	st, err := s.Stats()
	if err != nil || last > 0 && st.Entries != last-first+1 {
		t.Errorf("%+v, %v: entries are missing", st, err)
	}
	want := map[uint64]*raft.Log{}
	for i := first; i <= last && last > 0; i++ {
		want[i] = childEntry(i)
	}
	wantEntries(t, s, want)
	if term, err := s.GetUint64([]byte("CurrentTerm")); r.term > 0 && (term < r.term || err != nil) {
		t.Errorf("term %d, %v, acknowledged was %d", term, err, r.term)
	}
	if r.first > 0 && first < r.first {
		t.Errorf("first entry is %d, entries below %d were deleted", first, r.first)
	}
	return last
}
