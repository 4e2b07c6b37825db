package output

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Column is a column of a [Table].
type Column struct {
	Name string
	// Wide columns are shown with -o wide alone.
	Wide bool
	// State columns hold the name of a state, and have its colour.
	State bool
	// Width is the least width. Only a [Stream], which cannot look ahead, needs
	// it. Defaults to the width of the widest cell.
	Width int
}

// Table is rows under a header. A row may have more cells than there are
// columns: they are not shown.
type Table struct {
	Columns []Column
	Rows    [][]string
	under   map[int][]string // by row
}

// Under adds lines below the last row, shown with -o wide alone.
func (t *Table) Under(lines ...string) {
	if t.under == nil {
		t.under = map[int][]string{}
	}
	t.under[len(t.Rows)-1] = append(t.under[len(t.Rows)-1], lines...)
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Columns makes plain columns of their names.
func Columns(names ...string) []Column {
	out := make([]Column, len(names))
	for i, n := range names {
		out[i] = Column{Name: n}
	}
	return out
}

const gap = "   " // between two columns

// write lays the table out. The header is always there, also over nothing.
func (t *Table) write(w io.Writer, wide, header bool, c palette) error {
	width := make([]int, len(t.Columns))
	for i, col := range t.Columns {
		width[i] = max(col.Width, utf8.RuneCountInString(col.Name))
		for _, row := range t.Rows {
			if i < len(row) {
				width[i] = max(width[i], utf8.RuneCountInString(Sanitize(row[i])))
			}
		}
	}
	var b strings.Builder
	if header {
		names := make([]string, len(t.Columns))
		for i, col := range t.Columns {
			names[i] = col.Name
		}
		t.line(&b, names, width, wide, func(_ Column, s string) string { return c.faint(s) })
	}
	for n, row := range t.Rows {
		t.line(&b, row, width, wide, func(col Column, s string) string {
			if col.State {
				return c.state(s)
			}
			return s
		})
		for _, line := range t.under[n] {
			if wide {
				b.WriteString("    " + c.faint(Sanitize(line)) + "\n")
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *Table) line(b *strings.Builder, row []string, width []int, wide bool, paint func(Column, string) string) {
	owed := ""
	for i, col := range t.Columns {
		if col.Wide && !wide {
			continue
		}
		cell := ""
		if i < len(row) {
			cell = Sanitize(row[i])
		}
		cell = OrDash(cell)
		b.WriteString(owed)
		b.WriteString(paint(col, cell))
		owed = strings.Repeat(" ", width[i]-min(width[i], utf8.RuneCountInString(cell))) + gap
	}
	b.WriteByte('\n') // the last cell is not padded
}
