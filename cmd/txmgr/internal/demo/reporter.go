package demo

import (
	"fmt"
	"io"
	"strings"
)

// Reporter prints the steps of the demo. The zero Reporter discards them.
type Reporter struct {
	// Out receives the text. Defaults to none.
	Out io.Writer
	// Color allows colours.
	Color bool
	// Progress begins to show the progress of a long scenario: step counts, hide clears the line
	// for other output. Defaults to none.
	Progress func(what string, total int) (step, hide func())
}

const indent = "     "

func (s Reporter) line(text string) {
	if s.Out != nil {
		_, _ = fmt.Fprintln(s.Out, strings.TrimRight(text, " ")) // an error of standard output has no recipient
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

// printf prints one step of a scenario.
func (s Reporter) printf(format string, args ...any) { s.line(indent + fmt.Sprintf(format, args...)) }

func (s Reporter) check(ok bool, what, found string) {
	if ok {
		s.line(indent + s.paint("32", "ok") + "  " + what)
		return
	}
	s.line(indent + s.paint("31", "FAILED") + "  " + what + ": " + found)
}

func (s Reporter) progress(what string, total int) (step, hide func()) {
	if s.Progress == nil {
		return func() {}, func() {}
	}
	return s.Progress(what, total)
}
