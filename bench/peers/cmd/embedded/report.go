package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
)

// report is the result of one run.
type report struct {
	Condition rig.Condition `json:"condition"`
	// Empty and Full are the throughput of the two nodes by the number of callers, round by round.
	Empty map[int][]*pairs `json:"empty"`
	Full  map[int][]*pairs `json:"full"`

	Opened   int              `json:"opened"` // transactions of two branches in the full node
	Filling  time.Duration    `json:"filling_ns"`
	Before   *memory          `json:"memory_before"`
	After    *memory          `json:"memory_after"`
	Pauses   []*pauses        `json:"snapshots"`
	Idle     *idle            `json:"idle"`
	Groups   []*deadlineGroup `json:"groups"`
	Restarts []*restartResult `json:"restarts"`
}

// callers are the numbers of transactions in flight that are measured.
var callers = []int{1, 64, 256, 1024}

// loaded is the number at which the full node is compared, and its snapshots are taken.
const loaded = 256

func (r *report) take(o options, empty, full *workerProcess) error {
	for _, step := range []func(options, *workerProcess, *workerProcess) error{r.fill, r.rest, r.throughput, r.stalls, r.deadlines, r.restart} {
		if err := step(o, empty, full); err != nil {
			return err
		}
	}
	return nil
}

func (r *report) fill(o options, _, full *workerProcess) error {
	a, err := full.Call(request{Do: "memory"})
	if err != nil {
		return err
	}
	r.Before, r.Opened = a.Memory, o.open
	progressf("opening %d transactions of two branches", o.open)
	began := time.Now()
	if _, err := full.Call(request{Do: "fill", Count: o.open, Branches: 2}); err != nil {
		return err
	}
	r.Filling = time.Since(began)
	progressf("opened in %v; memory", r.Filling.Round(time.Millisecond))
	a, err = full.Call(request{Do: "memory"})
	r.After = a.Memory
	return err
}

func (r *report) rest(o options, empty, full *workerProcess) error {
	if err := r.restart(o, empty, full); err != nil {
		return err
	}
	progressf("idling for %v", o.idle)
	a, err := full.Call(request{Do: "idle", Span: o.idle})
	r.Idle = a.Idle
	return err
}

func (r *report) throughput(o options, empty, full *workerProcess) error {
	r.Empty, r.Full = map[int][]*pairs{}, map[int][]*pairs{}
	span := time.Duration(o.seconds * float64(time.Second))
	for n := range o.rounds {
		for _, c := range callers {
			into := []struct {
				who *workerProcess
				got map[int][]*pairs
			}{{empty, r.Empty}, {full, r.Full}}
			if n%2 == 1 {
				into[0], into[1] = into[1], into[0]
			}
			for _, i := range into {
				a, err := i.who.Call(request{Do: "pairs", Callers: c, Span: span})
				if err != nil {
					return err
				}
				i.got[c] = append(i.got[c], a.Pairs)
				progressf("round %d of %d: %-5s node, %4d callers: %7.0f pairs/s, %v", n+1, o.rounds, i.who.Name, c, a.Pairs.PerSecond, a.Pairs.Latencies)
			}
		}
	}
	return nil
}

func (r *report) stalls(o options, _, full *workerProcess) error {
	for n := range o.rounds {
		progressf("snapshot %d of %d under load", n+1, o.rounds)
		a, err := full.Call(request{Do: "snapshot", Callers: loaded})
		if err != nil {
			return err
		}
		r.Pauses = append(r.Pauses, a.Pauses)
	}
	return nil
}

func (r *report) deadlines(o options, _, full *workerProcess) error {
	for _, branches := range []int{0, 2} {
		progressf("%d transactions of %d branches run into one deadline", o.due, branches)
		a, err := full.Call(request{Do: "group", Count: o.due, Branches: branches, Lead: o.lead})
		if err != nil {
			return err
		}
		r.Groups = append(r.Groups, a.Group)
	}
	return nil
}

func (r *report) restart(_ options, _, full *workerProcess) error {
	progressf("restart")
	a, err := full.Call(request{Do: "restart"})
	if err == nil {
		r.Restarts = append(r.Restarts, a.Restart)
	}
	return err
}

func (r *report) print(w io.Writer, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	if err := r.Condition.Print(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "one embedded node; %d transactions of two branches open in the full one; medians of %d rounds\n\n", r.Opened, len(r.Pauses))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "callers\tpairs/s empty\tfull\tratio\tCPU µs/pair empty\tfull\tfdatasyncs/command\tcommands/entry\t")
	for _, c := range callers {
		r.line(t, c)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nlatencies of a pair, of all rounds together")
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "callers\tnode\t"+rig.LatencyColumns+"\t")
	for _, c := range callers {
		fmt.Fprintf(t, "%d\tempty\t%s\t\n", c, rig.Merged(rig.Of(r.Empty[c], latencies)).Columns())
		fmt.Fprintf(t, "%d\tfull\t%s\t\n", c, rig.Merged(rig.Of(r.Full[c], latencies)).Columns())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "what\tmeasured\tgoal\t")
	for _, f := range r.results() {
		verdict := ""
		if f.goal != "" {
			verdict = "met"
			if !f.met {
				verdict = "MISSED"
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", f.what, f.measured, f.goal, verdict)
	}
	return t.Flush()
}

func (r *report) line(w io.Writer, callers int) {
	empty, full := r.Empty[callers], r.Full[callers]
	rate := func(p *pairs) float64 { return p.PerSecond }
	cpu := func(p *pairs) float64 { return float64(p.CPU.Nanoseconds()) / 1000 }
	fmt.Fprintf(w, "%d\t%.0f\t%.0f\t%.2f\t%.1f\t%.1f\t%.4f\t%.1f\t\n", callers,
		rig.Median(rig.Of(empty, rate)), rig.Median(rig.Of(full, rate)), rig.Median(r.ratios(callers, rate)),
		rig.Median(rig.Of(empty, cpu)), rig.Median(rig.Of(full, cpu)),
		rig.Median(rig.Of(empty, func(p *pairs) float64 { return float64(p.Syncs) / float64(p.Commands) })),
		rig.Median(rig.Of(empty, func(p *pairs) float64 { return float64(p.Commands) / float64(p.Entries) })))
}

func latencies(p *pairs) *rig.Latencies { return p.Latencies }

// ratios returns the figures of the full node divided by those of the empty one, round by round.
func (r *report) ratios(callers int, pick func(*pairs) float64) []float64 {
	out := make([]float64, len(r.Full[callers]))
	for i := range out {
		out[i] = pick(r.Full[callers][i]) / pick(r.Empty[callers][i])
	}
	return out
}
