// Package ruletest reads repositories in which a rule is broken on purpose, so
// that a rule can be tried on itself.
//
// Such a repository is a txtar archive. Its comment is what the rule must find,
// one finding a line; lines that begin with "#" explain. A "~" anywhere in the
// archive is removed, so that a word that no file may hold can be planted without
// standing there. A go.mod is there if the archive brings none.
package ruletest

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"
)

// Read gives the findings that must come out of an archive, and its files. What
// is wrong with the archive fails the test.
func Read(t *testing.T, file string) (want []string, repository fs.FS) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	archive := txtar.Parse([]byte(strings.ReplaceAll(string(data), "~", "")))
	if len(archive.Files) == 0 {
		t.Fatalf("%s holds no file", file)
	}
	fsys := fstest.MapFS{"go.mod": {Data: []byte("module example.org/house\n")}}
	for _, f := range archive.Files {
		fsys[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	want = slices.DeleteFunc(strings.Split(string(archive.Comment), "\n"), func(line string) bool {
		return line == "" || strings.HasPrefix(line, "#")
	})
	return want, fsys
}
