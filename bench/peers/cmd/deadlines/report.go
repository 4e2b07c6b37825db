package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/txmgr/txmgr/bench/peers/internal/embedded"
	"github.com/txmgr/txmgr/bench/peers/internal/rig"
)

// report is the result of one run.
type report struct {
	Condition rig.Condition             `json:"condition"`
	Etcd      string                    `json:"etcd"` // its version
	Groups    []*embedded.DeadlineGroup `json:"groups"`
	Missed    int                       `json:"missed"` // groups that were tried again
	Leases    *leases                   `json:"leases"`
	Goals     []rig.Goal                `json:"goals"`
}

// allowed are the seconds within which groups of a size have to be decided.
var allowed = map[int]float64{20_000: 0.2, 100_000: 1, 1_000_000: 1}

// maxEntry is the maximum size in bytes of the entry that ends a group of any size.
const maxEntry = 99

func (r *report) checkGoals() {
	for _, count := range r.sizes() {
		if want, has := allowed[count]; has {
			r.Goals = append(r.Goals, rig.AtMost(fmt.Sprintf("%d due at once: all decided and moved after the tick, s", count), want, r.of(count, moved)))
		}
	}
	largest := slices.Max(r.sizes())
	r.Goals = append(r.Goals, rig.AtMost(fmt.Sprintf("bytes of the entry that ends %d", largest), maxEntry,
		r.of(largest, func(g *embedded.DeadlineGroup) float64 { return float64(g.Bytes) })))
}

// sizes returns the sizes of the groups, smallest first. A group may lack a few transactions that
// were too late for its tick.
func (r *report) sizes() (out []int) {
	for _, g := range r.Groups {
		out = append(out, asked(g.Count))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// asked rounds up to the requested size: a group counts if it has 99 of 100 transactions.
func asked(count int) int {
	for _, n := range []int{20_000, 100_000, 1_000_000} {
		if count <= n && count >= n*99/100 {
			return n
		}
	}
	return count
}

func (r *report) of(count int, pick func(*embedded.DeadlineGroup) float64) (out []float64) {
	for _, g := range r.Groups {
		if asked(g.Count) == count {
			out = append(out, pick(g))
		}
	}
	return out
}

func moved(g *embedded.DeadlineGroup) float64 { return g.Moved.Seconds() }

func decided(g *embedded.DeadlineGroup) float64 { return g.Decided.Seconds() }

func (r *report) print(w io.Writer, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	if err := r.Condition.Print(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "three nodes of txmgr, one interval of 100 ms; seconds from the beginning of the tick, medians; %d tries missed\n\n", r.Missed)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "due at once\trounds\tone entry decides\tleast\tmost\tall records moved\tleast\tmost\tbytes of that entry\tentries in all\tbytes in all\tbegun/s before\t")
	for _, count := range r.sizes() {
		d, m := r.of(count, decided), r.of(count, moved)
		median := func(pick func(*embedded.DeadlineGroup) float64) float64 { return rig.Median(r.of(count, pick)) }
		fmt.Fprintf(t, "%d\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.0f\t%.0f\t%.0f\t%.0f\t\n", count, len(d),
			rig.Median(d), slices.Min(d), slices.Max(d), rig.Median(m), slices.Min(m), slices.Max(m),
			median(func(g *embedded.DeadlineGroup) float64 { return float64(g.Bytes) }),
			median(func(g *embedded.DeadlineGroup) float64 { return float64(g.Entries) }),
			median(func(g *embedded.DeadlineGroup) float64 { return float64(g.All) }),
			median(func(g *embedded.DeadlineGroup) float64 { return float64(g.Count) / g.Filling.Seconds() }))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if l := r.Leases; l != nil {
		fmt.Fprintf(w, "\netcd %s, three nodes: %d leases with a key each, granted at %.0f/s: the last key is gone %.1f s after the last lease's end, the first %.1f s\n",
			r.Etcd, l.Count, float64(l.Count)/l.Filling.Seconds(), l.Late.Seconds(), l.First.Seconds())
		if same := r.of(l.Count, moved); len(same) > 0 {
			fmt.Fprintf(w, "as many transactions of txmgr: %.0f times as fast\n", l.Late.Seconds()/rig.Median(same))
		}
	}
	fmt.Fprintln(w)
	return rig.PrintGoals(w, r.Goals)
}
