package sim

import (
	"flag"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var oneSeed = flag.Int64("sim.seed", -1, "run this seed alone, and print its story")

// TestMain makes tracebacks show the labels of goroutines: a panic in one of raft's names its seed.
func TestMain(m *testing.M) {
	if err := os.Setenv("GODEBUG", strings.TrimPrefix(os.Getenv("GODEBUG")+",tracebacklabels=1", ",")); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// run executes one run in a bubble of its own.
func run(t *testing.T, p Plan) (o Outcome) {
	synctest.Test(t, func(*testing.T) { o = Run(p) })
	return o
}

// seeds returns which seeds are requested.
func seeds(t *testing.T, def int) (first, count int) {
	for _, v := range []struct {
		name string
		into *int
	}{{"TXMGR_SIM_SEEDS", &def}, {"TXMGR_SIM_FIRST", &first}} {
		text, set := os.LookupEnv(v.name)
		if !set {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			t.Fatalf("%s=%q: want a number", v.name, text)
		}
		*v.into = n
	}
	return first, def
}

// TestSim runs many seeds. It fails when one violates an invariant, when there was too little load,
// and when a fault has not occurred at all.
func TestSim(t *testing.T) {
	if *oneSeed >= 0 {
		o := run(t, Plan{Seed: uint64(*oneSeed)})
		t.Logf("%s\n%s", o.Trace, &o)
		report(t, o)
		return
	}
	first, count := seeds(t, 100)
	var mu sync.Mutex
	var all []Outcome
	began := time.Now()
	t.Run("seeds", func(t *testing.T) {
		next := make(chan uint64)
		go func() {
			defer close(next)
			for s := range count {
				next <- uint64(first + s)
			}
		}()
		for n := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				for s := range next {
					o := run(t, Plan{Seed: s})
					report(t, o)
					o.Trace = ""
					mu.Lock()
					all = append(all, o)
					mu.Unlock()
				}
			})
		}
	})
	total := sum(all)
	t.Logf("%d seeds in %v: %v simulated, %d transactions, %d committed, %d rolled back, %d timed out, %d heuristic outcomes, %d entries, %d snapshots, %d messages, %d calls checked; latest timeout %v",
		len(all), time.Since(began).Round(time.Millisecond), total.Simulated.Round(time.Second), total.Transactions, total.Committed, total.RolledBack, total.TimedOut, total.Heuristics,
		total.Entries, total.Snapshots, total.Messages, total.Operations, total.Late.Round(time.Millisecond))
	for _, name := range slices.Sorted(maps.Keys(total.Fired)) {
		t.Logf("%8d  %s", total.Fired[name], name)
	}
	checkCoverage(t, len(all), total)
}

// report fails for a run with violations.
func report(t *testing.T, o Outcome) {
	t.Helper()
	if len(o.Violations) == 0 {
		return
	}
	t.Errorf("seed %d violates:", o.Seed)
	for _, v := range o.Violations[:min(len(o.Violations), 20)] {
		t.Errorf("    %s", v)
	}
	t.Logf("the end of its story:\n%s\nrun it again: go test ./internal/sim -run 'TestSim$' -v -sim.seed %d", o.Trace, o.Seed)
}

func sum(all []Outcome) (total Outcome) {
	total.Fired = map[string]int{}
	for _, o := range all {
		total.Transactions += o.Transactions
		total.Committed += o.Committed
		total.RolledBack += o.RolledBack
		total.TimedOut += o.TimedOut
		total.Heuristics += o.Heuristics
		total.Entries += o.Entries
		total.Messages += o.Messages
		total.Operations += o.Operations
		total.Snapshots += o.Snapshots
		total.Simulated += o.Simulated
		total.Late = max(total.Late, o.Late)
		for name, n := range o.Fired {
			total.Fired[name] += n
		}
	}
	return total
}
