package output

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Page is output for people that does not fit a table: titles, and under them rows whose last cell
// is a text of any length. The zero Page is empty. The rules of tables apply: nothing in a page
// moves the cursor.
type Page struct{ items []pageItem }

type pageItem struct {
	title bool
	cells []string // of a title: its words
	text  string   // broken into lines where it is too long
	paste bool     // text is never broken: it is to be pasted
}

// Title begins a part. The first word is emphasized, and a word that names a state has its colour.
func (p *Page) Title(words ...string) {
	p.items = append(p.items, pageItem{title: true, cells: words})
}

// Row adds text behind short cells, which line up with those of the other rows of
// the part. The first of them may be a state.
func (p *Page) Row(text string, cells ...string) {
	p.items = append(p.items, pageItem{text: text, cells: cells})
}

// Paste adds a line under the text of the previous row, for copying into a shell or client: it is
// never broken.
func (p *Page) Paste(command string) {
	p.items = append(p.items, pageItem{text: command, paste: true})
}

const (
	defaultWidth = 100 // of a page that goes to no terminal
	minTextWidth = 40  // columns that a text gets, however narrow the terminal is
	margin       = "  "
)

func (p *Page) write(w io.Writer, width int, c palette) error {
	if width <= 0 {
		width = defaultWidth
	}
	var b strings.Builder
	for i := 0; i < len(p.items); {
		end := i + 1
		for end < len(p.items) && !p.items[end].title {
			end++
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		writePart(&b, p.items[i:end], width, c)
		i = end
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writePart(b *strings.Builder, items []pageItem, width int, c palette) {
	var widths []int
	for _, it := range items {
		for i, cell := range it.cells {
			if it.title {
				break
			}
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(Sanitize(cell)))
		}
	}
	hang := len(margin)
	for _, n := range widths {
		hang += n + len(margin)
	}
	for _, it := range items {
		switch {
		case it.title:
			writeTitle(b, it.cells, c)
		case it.paste:
			b.WriteString(strings.Repeat(" ", hang) + c.bold(Sanitize(it.text)) + "\n")
		default:
			writeRow(b, it, widths, max(width-hang, minTextWidth), c)
		}
	}
}

func writeTitle(b *strings.Builder, words []string, c palette) {
	var out []string
	for i, word := range words {
		if word = Sanitize(word); word == "" {
			continue
		}
		if i == 0 {
			word = c.bold(word)
		} else {
			word = c.state(word)
		}
		out = append(out, word)
	}
	b.WriteString(strings.Join(out, margin) + "\n")
}

func writeRow(b *strings.Builder, it pageItem, widths []int, width int, c palette) {
	lead, empty := margin, margin
	for i, n := range widths {
		cell := ""
		if i < len(it.cells) {
			cell = Sanitize(it.cells[i])
		}
		pad := strings.Repeat(" ", n-utf8.RuneCountInString(cell)) + margin
		if i == 0 {
			lead += c.state(cell) + pad
		} else {
			lead += cell + pad
		}
		empty += strings.Repeat(" ", n) + margin
	}
	for _, line := range wrap(Sanitize(it.text), width) {
		b.WriteString(strings.TrimRight(lead+line, " ") + "\n")
		lead = empty
	}
}

// wrap breaks a text into lines at its spaces. A word that is longer than a line
// has a line of its own.
func wrap(text string, width int) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return slices.Clip(lines)
}
