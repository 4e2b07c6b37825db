// Command survivaltable measures package survival and its peers in one interleaved run and prints the results and their
// ratios as Markdown.
//
// Every repetition measures all contenders in a new random order, each in a process of its own, so
// that none inherits another's heap and a change of the machine's speed affects all of them. Times
// are CPU times: of the process for runtime timers that expire and for collections, of the calling
// thread for everything else. Other processes do not count, except that they use the caches, too.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/txmgr/txmgr/bench/peers/survivalpeers"
	"github.com/txmgr/txmgr/timeout/survival"
)

const batch = 4096

// metric names a row of the table; less is better in all of them.
type metric struct {
	name string
	unit string
}

var rows = []metric{
	{"add, uniform", "ns"},
	{"add, same", "ns"},
	{"cancel at random, uniform", "ns"},
	{"cancel at random, same", "ns"},
	{"expire, uniform", "ns"},
	{"expire, same", "ns"},
	{"longest step, uniform", "µs"},
	{"longest step, same", "µs"},
	{"memory, fresh", "B"},
	{"memory, churned", "B"},
	{"one collection", "µs"},
}

// contender measures itself once and stores its results by the name of the row.
type contender struct {
	name    string
	measure func(size int, results map[string]float64) error
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "survivaltable:", err)
		os.Exit(1)
	}
}

func run() error {
	repetitions := flag.Int("n", 5, "how often to measure each contender")
	size := flag.Int("pending", 1_000_000, "pending entries, a multiple of 20")
	one := flag.String("one", "", "measure only this contender, once, and print JSON")
	flag.Parse()
	if *repetitions < 1 || *size < 20 || *size%20 != 0 {
		return errors.New("-n must be positive and -pending a positive multiple of 20")
	}
	contenders := []contender{
		{"survival", virtual(func() survivalpeers.Virtual[survivalpeers.Handle] { return survivalpeers.NewUnlockedSurvival() })},
		{"survival+mutex", virtual(func() survivalpeers.Virtual[survivalpeers.Handle] { return survivalpeers.NewLockedSurvival() })},
		{"AfterFunc+Stop", afterFunc},
		{"heap+mutex", virtual(func() survivalpeers.Virtual[*survivalpeers.Item] { return &survivalpeers.Heap{} })},
		{"btree+mutex", virtual(func() survivalpeers.Virtual[survivalpeers.Key] { return survivalpeers.NewTree() })},
	}
	if *one != "" {
		return measureOne(contenders, *one, *size)
	}
	seen := make(map[string]map[string][]float64)
	for _, c := range contenders {
		seen[c.name] = make(map[string][]float64)
	}
	for n := range *repetitions {
		for _, k := range rand.Perm(len(contenders)) {
			name := contenders[k].name
			fmt.Fprintf(os.Stderr, "repetition %d of %d: %s\n", n+1, *repetitions, name)
			results, err := inProcess(name, *size)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			for row, value := range results {
				seen[name][row] = append(seen[name][row], value)
			}
		}
	}
	fmt.Printf("%s, %s/%s, GOMAXPROCS %d, %d pending, median (least to most) of %d\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), *size, *repetitions)
	printTable(contenders, seen)
	return nil
}

// measureOne is the work of a child process.
func measureOne(contenders []contender, name string, size int) error {
	for _, c := range contenders {
		if c.name != name {
			continue
		}
		results := make(map[string]float64)
		if err := c.measure(size, results); err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(results)
	}
	return fmt.Errorf("there is no contender %q", name)
}

// inProcess measures a contender in a child process.
func inProcess(name string, size int) (map[string]float64, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	child := exec.Command(self, "-one", name, "-pending", strconv.Itoa(size))
	child.Stderr = os.Stderr
	out, err := child.Output()
	if err != nil {
		return nil, err
	}
	var results map[string]float64
	return results, json.Unmarshal(out, &results)
}

func printTable(contenders []contender, seen map[string]map[string][]float64) {
	header, rule := "| per entry |", "|---|"
	for _, c := range contenders {
		header += " " + c.name + " |"
		rule += "---|"
	}
	fmt.Println(header)
	fmt.Println(rule)
	for _, m := range rows {
		fmt.Printf("| %s (%s) |", m.name, m.unit)
		for _, c := range contenders {
			values := slices.Sorted(slices.Values(seen[c.name][m.name]))
			if len(values) == 0 {
				fmt.Print(" - |")
				continue
			}
			fmt.Printf(" **%s** (%s to %s)%s |", short(median(values)), short(values[0]), short(values[len(values)-1]),
				ratio(median(values), seen[contenders[0].name][m.name], c.name == contenders[0].name))
		}
		fmt.Println()
	}
}

// ratio formats how many times the value is that of the first contender.
func ratio(value float64, first []float64, same bool) string {
	if same || len(first) == 0 || median(first) == 0 {
		return ""
	}
	return fmt.Sprintf(" %.1fx", value/median(first))
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func short(v float64) string {
	if v < 100 {
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// virtual measures a contender that takes the time from its caller.
func virtual[H any](empty func() survivalpeers.Virtual[H]) func(int, map[string]float64) error {
	return func(size int, results map[string]float64) error {
		for _, w := range survivalpeers.Workloads {
			timers := empty()
			l := survivalpeers.NewLoad(timers, w, size, size/20)
			l.Fill(size, size)
			pair(l, w, size, results)
			ended, total, longest := survivalpeers.Drain(timers, batch)
			if ended != size {
				return fmt.Errorf("%d of %d entries ended", ended, size)
			}
			results["expire, "+w.Name] = float64(total) / float64(size)
			results["longest step, "+w.Name] = float64(longest) / float64(time.Microsecond)
		}
		footprint(func() survivalpeers.Timers[H] { return empty() }, size, results)
		return nil
	}
}

// pair measures add and cancel over twenty rounds.
func pair[H any](l *survivalpeers.Load[H], w survivalpeers.Workload, size int, results map[string]float64) {
	var adding, cancelling []time.Duration
	for range 20 {
		adding = append(adding, l.AddRound())
		cancelling = append(cancelling, l.CancelRound())
	}
	perEntry := func(took []time.Duration) float64 {
		slices.SortFunc(took, func(a, b time.Duration) int { return cmp.Compare(a, b) })
		return float64(took[len(took)/2]) / float64(size/20)
	}
	results["add, "+w.Name] = perEntry(adding)
	results["cancel at random, "+w.Name] = perEntry(cancelling)
}

// footprint measures the memory of a load, fresh and churned, and the cost of a collection because
// of it. The space for the handles, which the owner keeps in any case, does not count as memory.
func footprint[H any](empty func() survivalpeers.Timers[H], size int, results map[string]float64) {
	for _, kind := range []struct {
		row   string
		churn int
	}{{"memory, fresh", 0}, {"memory, churned", 5 * size}} {
		l := survivalpeers.NewLoad(empty(), survivalpeers.Workloads[0], size, size/20)
		before, idle := survivalpeers.Collect()
		l.Fill(size, kind.churn)
		after, busy := survivalpeers.Collect()
		results[kind.row] = float64(after-before) / float64(size)
		results["one collection"] = float64(max(0, busy-idle)) / float64(time.Microsecond)
		l.CancelAll()
	}
}

// afterFunc measures runtime timers. They do not take the time from their caller: they end within
// two seconds.
func afterFunc(size int, results map[string]float64) error {
	for _, w := range survivalpeers.Workloads {
		timers := runtimeTimers()
		l := survivalpeers.NewLoad(timers, w, size, size/20)
		l.Fill(size, size)
		pair(l, w, size, results)
		l.CancelAll()
	}
	footprint(func() survivalpeers.Timers[*time.Timer] { return runtimeTimers() }, size, results)
	return afterFuncExpire(size, results)
}

func afterFuncExpire(size int, results map[string]float64) error {
	const window, lead = 2 * time.Second, 10 * time.Second
	unit := window / survivalpeers.Span
	timers := &survivalpeers.AfterFunc{Unit: unit}
	uniform := survivalpeers.Workloads[0]
	start := time.Now()
	l := survivalpeers.NewLoad(timers, survivalpeers.Workload{Name: uniform.Name, Ahead: func(r *rand.Rand) survival.Tick {
		return survival.Tick((lead-time.Since(start))/unit) + uniform.Ahead(r)
	}}, size, size/20)
	l.Fill(size, 0)
	runtime.GC()
	if timers.Fired.Load() > 0 {
		return fmt.Errorf("filling took longer than %v: measure on a quieter machine", lead)
	}
	before := survivalpeers.ProcessCPU()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for timers.Fired.Load() < uint64(size) {
		<-poll.C
		if time.Since(start) > 5*time.Minute {
			return fmt.Errorf("%d of %d timers fired within five minutes", timers.Fired.Load(), size)
		}
	}
	results["expire, "+uniform.Name] = float64(survivalpeers.ProcessCPU()-before) / float64(size)
	return nil
}

// runtimeTimers returns runtime timers whose ticks are so long that none ends during a measurement,
// as if time stood still. For the other contenders it does.
func runtimeTimers() *survivalpeers.AfterFunc { return &survivalpeers.AfterFunc{Unit: time.Hour} }
