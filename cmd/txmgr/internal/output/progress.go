package output

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Progress shows how far a long job is: a bar on a terminal, a line every ten
// seconds elsewhere, nothing to programs and people who asked for quiet. It is
// for several goroutines.
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

// Progress begins a job of total steps; total is at least 1. now is when.
func (p *Printer) Progress(what string, total int, now time.Time) *Progress {
	return &Progress{p: p, what: what, total: max(total, 1), bar: IsTerminal(p.Err), last: now}
}

// Step counts one step done at the time now.
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

// Hide takes the bar away until the next step, so that what is printed next
// stands alone.
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
	_, _ = fmt.Fprint(g.p.Err, s) // nobody to tell
}
