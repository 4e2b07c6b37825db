package demo

import (
	"fmt"
	"io"
	"strings"
)

// Reporter is where the tour tells what happens. The zero Reporter tells it to nobody.
type Reporter struct {
	// Out receives the story. Defaults to nowhere.
	Out io.Writer
	// Color allows colours.
	Color bool
	// Progress begins to show how far a long scene is: step counts, hide makes
	// room for a line of the story. Defaults to nothing.
	Progress func(what string, total int) (step, hide func())
}

const indent = "     "

func (s Reporter) line(text string) {
	if s.Out != nil {
		_, _ = fmt.Fprintln(s.Out, strings.TrimRight(text, " ")) // nobody to tell
	}
}

func (s Reporter) paint(code, text string) string {
	if !s.Color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s Reporter) heading(n int, title string) {
	s.line("")
	s.line(s.paint("1", fmt.Sprintf("  %d  %s", n, title)))
}

// printf tells one step of a scene.
func (s Reporter) printf(format string, args ...any) { s.line(indent + fmt.Sprintf(format, args...)) }

func (s Reporter) check(ok bool, what, found string) {
	if ok {
		s.line(indent + s.paint("32", "ok") + "  " + what)
		return
	}
	s.line(indent + s.paint("31", "BROKEN") + "  " + what + ": " + found)
}

func (s Reporter) progress(what string, total int) (step, hide func()) {
	if s.Progress == nil {
		return func() {}, func() {}
	}
	return s.Progress(what, total)
}
