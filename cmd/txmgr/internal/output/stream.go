package output

import "fmt"

// Stream writes elements one after the other, as they happen: in json and jsonl each is a line, in
// yaml a document.
type Stream struct {
	p       *Printer
	columns []Column
	begun   bool
}

// Stream begins a stream whose table has the given columns.
func (p *Printer) Stream(columns ...Column) *Stream { return &Stream{p: p, columns: columns} }

// Emit writes one element: value for programs, id for -o id, cells for people.
func (s *Stream) Emit(value any, id string, cells ...string) error {
	first := !s.begun
	s.begun = true
	switch s.p.Format {
	case JSONFormat, JSONLFormat:
		return writeJSON(s.p.Out, value, "")
	case YAMLFormat:
		if !first {
			if _, err := fmt.Fprintln(s.p.Out, "---"); err != nil {
				return err
			}
		}
		return writeYAML(s.p.Out, value)
	case IDFormat:
		return s.p.lines([]string{id})
	}
	t := Table{Columns: s.columns, Rows: [][]string{cells}}
	return t.write(s.p.Out, s.p.Format == WideFormat, first, palette(s.p.ColorOut))
}
