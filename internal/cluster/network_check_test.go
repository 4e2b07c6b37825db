package cluster

import (
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ping reports whether one node reaches another, and how long that takes.
func (w *network) ping(from, to int) (time.Duration, bool) {
	argv := append(w.execPrefix(from), "ping", "-c", "1", "-W", "0.5", "-q", w.address(to))
	start := time.Now()
	err := exec.Command(argv[0], argv[1:]...).Run()
	return time.Since(start), err == nil
}

// TestNetwork: the network behaves as the other tests assume.
func TestNetwork(t *testing.T) {
	t.Parallel()
	w := newNetwork(t)
	check := func(what string, want [size][size]bool) {
		t.Helper()
		for from := range size {
			for to := range size {
				if from == to {
					continue
				}
				_, got := w.ping(from, to)
				for try := 0; try < 5 && want[from][to] && !got; try++ {
					_, got = w.ping(from, to) // a link that is just up may take a moment
				}
				if got != want[from][to] {
					t.Errorf("%s: %d reaches %d: %v, want %v", what, from, to, got, want[from][to])
				}
			}
		}
	}
	all := [size][size]bool{{true, true, true}, {true, true, true}, {true, true, true}}
	check("whole", all)
	w.must(w.setLink(0, false))
	check("unplugged", [size][size]bool{1: {2: true}, 2: {1: true}})
	w.must(w.setLink(0, true))
	check("plugged", all)
	w.must(w.partition(0, 1))
	check("parted", [size][size]bool{0: {2: true}, 1: {2: true}, 2: {true, true, false}})
	w.must(w.heal())
	check("healed", all)

	w.must(w.dropIncoming(1, 0))
	if receives(t, w, 0, 1) {
		t.Error("a deaf node hears")
	}
	if !receives(t, w, 1, 0) {
		t.Error("a node is not heard that is only deaf")
	}
	w.must(w.heal())

	quick, _ := w.ping(0, 1)
	over, err := w.slowLine(1, 200*time.Millisecond, 0)
	w.must(err)
	slow, ok := w.ping(0, 1)
	packets, lost, err := over()
	w.must(err)
	if !ok || slow < quick+150*time.Millisecond || packets == 0 || lost != 0 {
		t.Errorf("a line that is slow by 200ms took %v (quick: %v), answered: %v, %d packets passed, %d were lost", slow, quick, ok, packets, lost)
	}
	over, err = w.slowLine(1, 0, 1)
	w.must(err)
	_, ok = w.ping(0, 1)
	if packets, lost, err = over(); err != nil || ok || packets == 0 || lost != packets {
		t.Errorf("a line that loses everything: answered: %v, %d packets, %d lost, %v", ok, packets, lost, err)
	}
	check("in the end", all)
}

// receives reports whether packets from one node arrive at another, whatever comes back.
func receives(t *testing.T, w *network, from, to int) bool {
	t.Helper()
	before := countPings(t, w, to)
	w.ping(from, to)
	return countPings(t, w, to) > before
}

// countPings is the number of pings that a node received.
func countPings(t *testing.T, w *network, at int) (n int) {
	t.Helper()
	argv := append(w.execPrefix(at), "cat", "/proc/net/snmp")
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var names, values []string
	for line := range strings.Lines(string(out)) {
		if rest, is := strings.CutPrefix(line, "Icmp: "); is {
			names, values = values, strings.Fields(rest)
		}
	}
	if i := slices.Index(names, "InEchos"); i >= 0 && i < len(values) {
		n, err = strconv.Atoi(values[i])
		if err == nil {
			return n
		}
	}
	t.Fatalf("no count of pings in %s", out)
	return 0
}
