package adaptivesim

import (
	"time"

	"github.com/txmgr/txmgr/adaptive"
)

// windowMeter measures a window, as the pool of package adaptive does.
type windowMeter struct {
	w                adaptive.Window
	service, sojourn adaptive.Histogram

	busy, queue, bound, computing float64 // integrals, in seconds
}

func (g *windowMeter) begin(busy int) {
	g.w = adaptive.Window{Service: &g.service, Sojourn: &g.sojourn, BusyMax: busy}
}

// advance advances the time.
func (g *windowMeter) advance(seconds float64, busy, waiting, computing int, paused bool) {
	g.busy += seconds * float64(busy)
	if waiting > 0 {
		g.queue += seconds * float64(waiting)
		g.bound += seconds
	}
	if !paused {
		g.computing += seconds * float64(min(computing, cores))
	}
}

func (g *windowMeter) arrived()         { g.w.Arrived++ }
func (g *windowMeter) queued(n int)     { g.w.QueueMax = max(g.w.QueueMax, n) }
func (g *windowMeter) started(busy int) { g.w.BusyMax = max(g.w.BusyMax, busy) }

func (g *windowMeter) finished(now float64, t *task, bound bool) {
	g.w.Completed++
	if bound {
		g.w.BoundCompleted++
	}
	g.service.Record(duration(now - t.started))
	g.sojourn.Record(duration(now - t.arrived))
}

// take returns the window that ends now. It is valid until next.
func (g *windowMeter) take(now float64, limit, waiting int) *adaptive.Window {
	w := &g.w
	w.End = duration(now)
	w.Limit = limit
	w.BusyTime, w.QueueTime, w.BoundTime = duration(g.busy), duration(g.queue), duration(g.bound)
	w.QueueLen = waiting
	w.CPU = g.computing / cores / max(w.Length().Seconds(), time.Nanosecond.Seconds())
	return w
}

// next begins the window after the last one.
func (g *windowMeter) next(busy, waiting int) {
	from := g.w.End
	g.service.Reset()
	g.sojourn.Reset()
	g.busy, g.queue, g.bound, g.computing = 0, 0, 0, 0
	g.begin(busy)
	g.w.Start, g.w.QueueMax = from, waiting
}
