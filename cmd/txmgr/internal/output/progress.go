package output

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Progress shows the progress of a long job: a bar on a terminal, a line every ten seconds
// elsewhere, nothing if the output is for programs or Quiet is set. It may be used by several
// goroutines.
type Progress struct {
	p     *Printer
	what  string
	total int
	bar   bool

	mu   sync.Mutex // guards the rest
	done int
	last time.Time
}

const (
	barWidth  = 30
	barEvery  = 100 * time.Millisecond
	lineEvery = 10 * time.Second
)

// Progress begins a job of total steps; total is at least 1. now is the present time.
func (p *Printer) Progress(what string, total int, now time.Time) *Progress {
	return &Progress{p: p, what: what, total: max(total, 1), bar: IsTerminal(p.Err), last: now}
}

// Step counts one completed step; now is the present time.
func (g *Progress) Step(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.done++
	every := lineEvery
	if g.bar {
		every = barEvery
	}
	if now.Sub(g.last) < every {
		return
	}
	g.last = now
	if !g.bar {
		g.p.Note("%s: %d of %d", g.what, g.done, g.total)
		return
	}
	full := barWidth * min(g.done, g.total) / g.total
	g.draw(fmt.Sprintf("\r  %s  [%s%s] %d/%d", g.what, strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), g.done, g.total))
}

// Hide removes the bar until the next step, so that the next output stands on a line of its own.
func (g *Progress) Hide() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bar {
		g.draw("\r\x1b[K")
	}
}

func (g *Progress) draw(s string) {
	if g.p.Quiet || g.p.Format.Structured() || g.p.Format == IDFormat {
		return
	}
	g.p.mu.Lock()
	defer g.p.mu.Unlock()
	_, _ = fmt.Fprint(g.p.Err, s) // an error of standard error has no recipient
}
