package ledger

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/txn"
)

func TestParse(t *testing.T) {
	got, err := parse(" add alice -5;\nset bank:cash 7\n MOVE a b 3 ;; get x@y/z.1")
	want := []statement{
		{"add", []string{"alice"}, -5},
		{"set", []string{"bank:cash"}, 7},
		{"move", []string{"a", "b"}, 3},
		{"get", []string{"x@y/z.1"}, 0},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestParseErrorsSayWhatIsWrong(t *testing.T) {
	for text, why := range map[string]string{
		"":                                   "empty ledger statement: want add",
		" ; \n":                              "empty ledger statement",
		"mov a b 1":                          `"mov a b 1": unknown verb "mov"; want add ACCOUNT AMOUNT`,
		"add a":                              "add takes 2 words, not 1",
		"add a 1 2":                          "add takes 2 words, not 3",
		"add a 1.5":                          `amount "1.5" is not a whole number`,
		"add a 99999999999999999999":         "is not a whole number of at most 19 digits",
		"set a -1":                           "a balance cannot be below zero",
		"move a b -1":                        "cannot be below zero; move the other way",
		"move a a 1":                         "moves from a to itself",
		"get ä":                              "account name",
		"get a'":                             "want 1 to 64 letters",
		"get " + strings.Repeat("a", 65):     "want 1 to 64 letters",
		strings.Repeat("x", maxStatements+1): "at most",
	} {
		_, err := parse(text)
		if !errors.Is(err, txn.ErrInvalid) || !strings.Contains(err.Error(), why) {
			t.Errorf("%.30q: got %v, want %s", text, err, why)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("add alice 1; get bob")
	f.Add("move a b 3\nset c -1")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parse(text)
		if (err == nil) == (len(all) == 0) {
			t.Fatalf("%v, %v", all, err)
		}
		for _, s := range all {
			if err := s.check(); err != nil {
				t.Fatalf("accepted %v: %v", s, err)
			}
		}
	})
}
