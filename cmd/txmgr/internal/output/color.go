package output

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/txmgr/txmgr/txn"
)

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// WidthOf returns the width of the terminal w in columns; 0 if w is no terminal.
func WidthOf(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// ColorFor reports whether to colour the output to w. mode is auto, always or never; noColor means
// that NO_COLOR is set, or that the terminal is a dumb one.
func ColorFor(mode string, noColor bool, w io.Writer) bool {
	switch mode {
	case "always":
		return true
	case "never":
		return false
	}
	return !noColor && IsTerminal(w)
}

// palette colours words, or leaves them as they are.
type palette bool

func (p palette) paint(code, s string) string {
	if !p || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p palette) red(s string) string    { return p.paint("31", s) }
func (p palette) green(s string) string  { return p.paint("32", s) }
func (p palette) yellow(s string) string { return p.paint("33", s) }
func (p palette) bold(s string) string   { return p.paint("1", s) }
func (p palette) faint(s string) string  { return p.paint("2", s) }

// state colours the names of good and bad states.
func (p palette) state(s string) string {
	switch s {
	case txn.Committed.String(), "yes", "ok":
		return p.green(s)
	case txn.Committing.String(), txn.RollingBack.String(), txn.Preparing.String(), txn.Active.String(),
		txn.BranchEnlisted.String(), txn.BranchPrepared.String(), "warning":
		return p.yellow(s)
	case txn.RolledBack.String(), txn.BranchHeuristic.String(), "no", "FAIL", "failed":
		return p.red(s)
	}
	if strings.HasPrefix(s, txn.BranchHeuristic.String()) {
		return p.red(s)
	}
	return s
}
