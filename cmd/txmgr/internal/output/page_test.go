package output_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
)

func TestPage(t *testing.T) {
	var p output.Page
	p.Title("tx_01", "", "committing", "heuristic: mixed")
	p.Row("a text that is too long for one line of this page, so that it has to be broken")
	p.Title("b1 at bank")
	p.Row("commit", "decided")
	p.Row("it cannot be asked: connection refused", "says now")
	p.Paste("a command that is far too long for a line and is not broken all the same")
	want := `tx_01  committing  heuristic: mixed
  a text that is too long for one line of this page,
  so that it has to be broken

b1 at bank
  decided   commit
  says now  it cannot be asked: connection refused
            a command that is far too long for a line and is not broken all the same
`
	for _, format := range []output.Format{output.TableFormat, output.WideFormat} {
		got := print(t, &output.Printer{Format: format, Width: 54}, output.Document{Value: 1, Page: p})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
	}
	got := print(t, &output.Printer{ColorOut: true}, output.Document{Value: 1, Page: p})
	for _, painted := range []string{"\x1b[1mtx_01\x1b[0m", "\x1b[33mcommitting\x1b[0m", "\x1b[31mheuristic: mixed\x1b[0m"} {
		if !strings.Contains(got, painted) {
			t.Errorf("%q is not in %q", painted, got)
		}
	}
	if got := print(t, &output.Printer{Format: output.JSONFormat}, output.Document{Value: 1, Page: p}); got != "1\n" {
		t.Errorf("programs get %q", got)
	}
}

// A page breaks at its width, loses no word, and contains no control character.
func TestPageKeepsItsWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		// A label is one short word: a text gets at least 40 columns, and a line that is too long
		// is identified by its words.
		label := rapid.StringN(0, 10, -1).Filter(func(s string) bool {
			s = output.Sanitize(s)
			return utf8.RuneCountInString(s) <= 13 && len(strings.Fields(s)) <= 1
		}).Draw(t, "label")
		width := rapid.IntRange(60, 200).Draw(t, "width")
		var p output.Page
		p.Title(text, "end")
		p.Row(text, label, "x")
		p.Paste(text)
		var out bytes.Buffer
		if err := (&output.Printer{Out: &out, Width: width}).Print(output.Document{Value: 1, Page: p}); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		for _, r := range strings.Join(lines, "") {
			if r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x202e {
				t.Fatalf("%q let %U through", text, r)
			}
		}
		for _, line := range lines[1 : len(lines)-1] {
			if words := strings.Fields(line); utf8.RuneCountInString(line) > width && len(words) > 3 {
				t.Fatalf("%d columns of %d: %q", utf8.RuneCountInString(line), width, line)
			}
		}
		if said := strings.Fields(output.Sanitize(text)); !strings.Contains(strings.Join(strings.Fields(strings.Join(lines[1:len(lines)-1], " ")), " "), strings.Join(said, " ")) {
			t.Fatalf("%q is not whole in %q", text, out.String())
		}
	})
}

func TestLinesUnderARow(t *testing.T) {
	table := output.Table{Columns: output.Columns("NAME")}
	table.Add("bank")
	table.Under("locked: table a", "waits:  \x1b[2J")
	table.Add("stock")
	d := output.Document{Value: 1, Tables: []output.Table{table}}
	if got := print(t, &output.Printer{}, d); got != "NAME\nbank\nstock\n" {
		t.Errorf("table: %q", got)
	}
	if got := print(t, &output.Printer{Format: output.WideFormat}, d); got != "NAME\nbank\n    locked: table a\n    waits:  \\x1b[2J\nstock\n" {
		t.Errorf("wide: %q", got)
	}
}
