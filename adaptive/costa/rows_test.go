package costa

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRowsAreCited: every place where the dissertation disagrees with itself is on the list
// in the package documentation, and a test cites it, or the list says why none does.
func TestRowsAreCited(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	ofThePool, err := filepath.Glob("../*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, ofThePool...)
	cited := map[string]bool{}
	citation := regexp.MustCompile(`\bRow (\d+):`)
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range f.Comments {
			for _, m := range citation.FindAllStringSubmatch(group.Text(), -1) {
				cited[m[1]] = true
			}
		}
	}
	rows := regexp.MustCompile(`(?m)^//\tRow (\d+) +(.*(?:\n//\t {8}.*)*)`).FindAllStringSubmatch(string(doc), -1)
	if len(rows) != 21 {
		t.Errorf("%d rows in doc.go, not 21", len(rows))
	}
	for i, row := range rows {
		if want := fmt.Sprint(i + 1); row[1] != want {
			t.Errorf("row %s is where %s should be", row[1], want)
		}
		if untested := strings.Contains(row[2], "Not tested:"); cited[row[1]] == untested {
			t.Errorf("row %s: cited by a test: %v, said not to be tested: %v", row[1], cited[row[1]], untested)
		}
		delete(cited, row[1])
	}
	for row := range cited {
		t.Errorf("a test cites row %s, which is not on the list", row)
	}
}
