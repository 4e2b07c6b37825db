// Package ruletest reads repositories in which a rule is broken on purpose, so that the rule itself
// can be tested. Call [Read].
//
// Such a repository is a txtar archive. Its comment lists the expected findings, one a line; lines
// that begin with "#" explain. A "~" anywhere in the archive is removed, so that an archive can
// contain a word that no file of the repository may contain. A go.mod is added if the archive has
// none.
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

// Read returns the expected findings of an archive, and its files. An error in the archive fails
// the test.
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
