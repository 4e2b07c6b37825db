package adaptive

import (
	"context"
	"math"
	"runtime/debug"
	"time"
)

// controller is the controller's state from window to window; it belongs to its
// goroutine, except ended.
type controller struct {
	ended    chan struct{} // closed when the goroutine has ended
	counters counters      // at the end of the last window
	times    *times        // of the last window, to be used for the next but one
}

// controlLoop is the controller: at the end of every window it asks the optimizer.
func (p *Pool) controlLoop(ctx context.Context) {
	defer close(p.controller.ended)
	ticker := time.NewTicker(p.cfg.Optimizer.Period())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			p.endWindow()
		}
	}
}

// endWindow ends a window. A window in which the limit was changed manually is no evidence
// about either limit, and is not shown to the optimizer.
func (p *Pool) endWindow() {
	w, whole := p.window()
	p.recent.add(w)
	if whole {
		p.decide(w, p.observe(w))
	}
}

// window returns what happened since the last window, and whether under one limit.
func (p *Pool) window() (*Window, bool) {
	c := &p.controller
	now := p.now()
	c.times.service.Reset()
	c.times.sojourn.Reset()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advanceLocked(now)
	p.times, c.times = c.times, p.times
	m, before := p.counters, c.counters
	c.counters = m
	p.counters.busyMax, p.counters.waitingMax = 0, 0
	w := &Window{
		Start:          before.last,
		End:            m.last,
		Limit:          p.limit,
		Arrived:        m.arrived - before.arrived,
		Completed:      m.completed - before.completed,
		BusyTime:       m.busy - before.busy,
		QueueTime:      m.waiting - before.waiting,
		BusyMax:        m.busyMax,
		QueueMax:       m.waitingMax,
		QueueLen:       p.waitingLocked(),
		BoundTime:      m.bound - before.bound,
		BoundCompleted: m.boundCompleted - before.boundCompleted,
		Service:        &c.times.service,
		Sojourn:        &c.times.sojourn,
		CPU:            math.NaN(),
	}
	whole := !p.resizedManually
	p.resizedManually = false
	return w, whole
}

// observe asks the optimizer. An optimizer that panics has decided nothing.
func (p *Pool) observe(w *Window) (d Decision) {
	defer func() {
		if v := recover(); v != nil {
			err := &PanicError{v, debug.Stack()}
			d = Decision{w.Limit, "the optimizer failed: " + err.Error()}
			if p.cfg.OnError != nil {
				p.cfg.OnError(err)
			}
		}
	}()
	if p.cfg.CPU != nil {
		w.CPU = p.cfg.CPU()
	}
	return p.cfg.Optimizer.Observe(w)
}

// decide applies the optimizer's decision, unless the limit was changed manually
// in the meantime.
func (p *Pool) decide(w *Window, d Decision) {
	limit := min(max(d.Limit, 1), MaxLimit)
	if limit == w.Limit && d.Why == "" {
		return
	}
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resizedManually {
		return
	}
	p.decisions.add(DecisionRecord{
		At:       p.epoch.Add(now),
		From:     w.Limit,
		To:       limit,
		Why:      d.Why,
		Rate:     w.Rate(),
		Busy:     w.Busy(),
		Bound:    ratio(float64(w.BoundTime), float64(w.Length())),
		Mean:     w.Sojourn.Mean(),
		P99:      w.Sojourn.Quantile(0.99),
		QueueLen: w.QueueLen,
	})
	if limit != p.limit {
		p.setLimitLocked(limit, now)
	}
}
