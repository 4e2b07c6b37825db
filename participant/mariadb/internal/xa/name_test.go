package xa

import (
	"errors"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/txn"
)

// TestFormOfAnXAName must never be rewritten: servers store these names.
func TestFormOfAnXAName(t *testing.T) {
	const text = "txm_test_01ej3pxbam0400000000000000_b12"
	n, err := ParseName(text)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Name{"txm_test_01ej3pxbam0400000000000000", "b12", 1954049329}); n != want {
		t.Errorf("got %v, want %v", n, want)
	}
	if want := "X'74786d5f746573745f3031656a3370786261" + "6d30343030303030303030303030303030',X'623132',1954049329"; n.Literal() != want {
		t.Errorf("got %s, want %s", n.Literal(), want)
	}
	if n.Text() != text {
		t.Errorf("read back as %s", n.Text())
	}
}

func TestNamesOfOthers(t *testing.T) {
	for text, want := range map[string]Name{
		"another owner's":                   {"another owner's", "", 1},
		"txm_test_1":                        {"txm_test_1", "", 1},
		"txm_TEST_01ej3pxbam0400000000_b1":  {"txm_TEST_01ej3pxbam0400000000_b1", "", 1},
		"X'00ff',X'',7":                     {"\x00\xff", "", 7},
		"X'00FF',X'',7":                     {"X'00FF',X'',7", "", 1}, // not as literal writes it
		strings.Repeat("x", 64):             {strings.Repeat("x", 64), "", 1},
		"X'6131',X'6232',1":                 {"a1", "b2", 1},
		"txm_test_01ej3pxbam0400000000_b01": {"txm_test_01ej3pxbam0400000000_b01", "", 1},
	} {
		if got, err := ParseName(text); got != want || err != nil {
			t.Errorf("%q: got %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", strings.Repeat("x", 65), "X'',X'',1"} {
		if n, err := ParseName(text); !errors.Is(err, txn.ErrInvalid) {
			t.Errorf("%q: %v, %v", text, n, err)
		}
	}
	// A name that only looks like one of txmgr has another text form.
	for _, n := range []Name{
		{"txm_test_01ej3pxbam0400000000000000_b1", "", 1},
		{"txm_test_01ej3pxbam0400000000000000", "b1", 1},
		{"txm_test", "01ej3pxbam0400000000000000_b1", FormatID},
		{"txm_test_01ej3pxbam0400000000000000", "", FormatID},
		{"a\nb", "", 1},
		{"\xff", "", 1},
	} {
		if text := n.Text(); text != n.Literal() {
			t.Errorf("%v is shown as %s", n, text)
		}
	}
}

func FuzzNameOf(f *testing.F) {
	f.Add("txm_test_01ej3pxbam0400000000000000_b12")
	f.Add("X'00ff',X'',7")
	f.Add("another owner's")
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseName(text)
		if err != nil {
			return
		}
		if back, err := ParseName(n.Text()); err != nil || back != n {
			t.Errorf("%q: %v is read back as %v, %v", text, n, back, err)
		}
		if _, _, _, ours := txn.ParseXID(text); ours && n.Text() != text {
			t.Errorf("%q is read back as %q", text, n.Text())
		}
	})
}

func FuzzParseRecovered(f *testing.F) {
	f.Add(uint32(7), 2, 1, "'aa','b',7")
	f.Add(uint32(3), 3, 0, "X'00ff27',X'',3")
	f.Add(uint32(1), 4, 1, "X'69742773',X'62'")
	f.Add(uint32(1), 3, 0, "X'615c62'")
	f.Add(uint32(1), -1, 1<<40, "X'")
	f.Fuzz(func(t *testing.T, format uint32, gtridLen, bqualLen int, data string) {
		n, err := ParseRecovered(format, gtridLen, bqualLen, data)
		if err == nil && (len(n.Gtrid) != gtridLen || len(n.Bqual) != bqualLen || n.Format != format) {
			t.Errorf("%q with %d, %d: %v", data, gtridLen, bqualLen, n)
		}
	})
}

func TestRecoveredRows(t *testing.T) {
	for data, c := range map[string]struct {
		gtrid, bqual int
		want         Name
	}{
		"'aa','b',7":    {2, 1, Name{"aa", "b", 7}},
		"'a,','b',7":    {2, 1, Name{"a,", "b", 7}},
		"X'6127','b',7": {2, 1, Name{"a'", "b", 7}},
		"'aa','',7":     {2, 0, Name{"aa", "", 7}},
		"'aa',7":        {2, 0, Name{"aa", "", 7}},
		"'aa'":          {2, 0, Name{"aa", "", 7}},
	} {
		if got, err := ParseRecovered(7, c.gtrid, c.bqual, data); got != c.want || err != nil {
			t.Errorf("%s: got %v, %v; want %v", data, got, err, c.want)
		}
	}
	for data, sizes := range map[string][2]int{
		"'aa','b',8": {2, 1}, "'aa','b'x": {2, 1}, "'aa": {2, 0}, "X'zz'": {1, 0}, "aa": {2, 0}, "'aa','b',7": {3, 0}, "": {1, 0}, "''": {65, 0},
	} {
		if got, err := ParseRecovered(7, sizes[0], sizes[1], data); err == nil {
			t.Errorf("%s is read as %v", data, got)
		}
	}
}
