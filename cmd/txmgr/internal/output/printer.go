package output

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"sync"
)

// Printer writes the results, notes and errors of commands. Out and Err must be set.
type Printer struct {
	Out, Err io.Writer
	// Format is how results are written. Defaults to a table.
	Format Format
	// Quiet leaves out notes and progress, never results and errors.
	Quiet bool
	// ColorOut and ColorErr allow colours.
	ColorOut, ColorErr bool
	// Width is where the text of a [Page] is broken. Defaults to 100.
	Width int

	mu sync.Mutex // one note at a time on Err
}

// Document is one result, in all formats.
type Document struct {
	// Value is written as json and yaml; a slice is written as jsonl line by
	// line. It must not be nil.
	Value any
	// IDs is what -o id prints, one a line.
	IDs []string
	// Tables are for people, with an empty line between two of them.
	Tables []Table
	// Page is for people, after the tables.
	Page Page
}

// Print writes a result to Out.
func (p *Printer) Print(d Document) error {
	switch p.Format {
	case JSONFormat:
		return writeJSON(p.Out, d.Value, "  ")
	case JSONLFormat:
		for _, v := range elements(d.Value) {
			if err := writeJSON(p.Out, v, ""); err != nil {
				return err
			}
		}
		return nil
	case YAMLFormat:
		return writeYAML(p.Out, d.Value)
	case IDFormat:
		return p.lines(d.IDs)
	}
	for i := range d.Tables {
		if i > 0 {
			if _, err := fmt.Fprintln(p.Out); err != nil {
				return err
			}
		}
		if err := d.Tables[i].write(p.Out, p.Format == WideFormat, true, palette(p.ColorOut)); err != nil {
			return err
		}
	}
	if len(d.Page.items) == 0 {
		return nil
	}
	if len(d.Tables) > 0 {
		if _, err := fmt.Fprintln(p.Out); err != nil {
			return err
		}
	}
	return d.Page.write(p.Out, p.Width, palette(p.ColorOut))
}

func (p *Printer) lines(lines []string) error {
	for _, l := range lines {
		if _, err := fmt.Fprintln(p.Out, Sanitize(l)); err != nil {
			return err
		}
	}
	return nil
}

// Note writes a note to Err: something for the operator that is not the result. It writes nothing
// if the output is for programs, or Quiet is set.
func (p *Printer) Note(format string, args ...any) {
	if p.Quiet || p.Format.Structured() || p.Format == IDFormat {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintf(p.Err, format+"\n", args...) // an error of standard error has no recipient
}

// elements returns the elements of a slice, or the value itself.
func elements(v any) []any {
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Slice {
		return []any{v}
	}
	out := make([]any, r.Len())
	for i := range out {
		out[i] = r.Index(i).Interface()
	}
	return out
}

func writeJSON(w io.Writer, v any, indent string) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	return enc.Encode(v)
}
