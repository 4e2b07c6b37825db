package archtest

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/internal/sourcetree"
)

const (
	maxLines   = 800
	largeLines = 500
)

func checkSize(t *sourcetree.Tree) []string {
	var findings []string
	for _, f := range files(t) {
		if f.Lines > maxLines {
			findings = append(findings, fmt.Sprintf("%s: %d lines; at most %d: split the file", f.Path, f.Lines, maxLines))
		}
	}
	return findings
}

// logLarge reports files that will soon break the rule about size.
func logLarge(t *testing.T, tree *sourcetree.Tree) {
	for _, f := range files(tree) {
		if f.Lines > largeLines && f.Lines <= maxLines {
			t.Logf("%s: %d lines: close to the limit", f.Path, f.Lines)
		}
	}
}

func files(t *sourcetree.Tree) []*sourcetree.File {
	var all []*sourcetree.File
	for _, p := range t.Packages {
		all = append(all, slices.DeleteFunc(slices.Clone(p.Files), func(f *sourcetree.File) bool { return f.Generated })...)
	}
	return all
}

// banned are texts that no file of the repository may contain. They are composed of pieces, because
// this file is one of the repository's.
var banned = []struct {
	text *regexp.Regexp
	why  string
}{
	{regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`), "finish it, or list it in docs/roadmap.md as missing"},
	{regexp.MustCompile(`(?i)\bnot (yet )?impl` + `emented\b`), "describe only what exists"},
	{regexp.MustCompile(`/wo` + `rk/|/fa` + `rm/|\.\./sha` + `red`), "a path of one machine"},
	{regexp.MustCompile(`(?i)\b(pro` + `xy|s` + `um)\.golang\.org\b|\bdeb\.deb` + `ian\.org\b|\bregistry\.npm` + `js\.org\b`), "a network host: tools have their own configuration"},
	{regexp.MustCompile(`(?i)\b(chat)?g` + `pt\b|\bcla` + `ude\b|\bl` + `lms?\b|\bA` + `I\b-|\bA` + `I (model|agent|assistant|helper)`), "the repository describes the product only"},
	{regexp.MustCompile(`(?i)\bissue #?[0-9]+\b`), "references to external numbers become stale: describe the problem"},
	{regexp.MustCompile(`\bsee` + `ds?/0`), "cite the source by its title"},
}

var exemptFiles = []string{"LICENSE"} // third-party text

func checkWords(t *sourcetree.Tree) []string {
	var findings []string
	err := fs.WalkDir(t.FS, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || p == "bin"):
			return fs.SkipDir
		case d.Name() == ".git" || d.IsDir() || !d.Type().IsRegular() || slices.Contains(exemptFiles, p) || path.Base(p) == "go.sum":
			return nil
		}
		data, err := fs.ReadFile(t.FS, p)
		if err != nil {
			return err
		}
		head := data[:min(len(data), 8<<10)]
		if bytes.IndexByte(head, 0) >= 0 || bytes.Contains(head, []byte("// Code generated ")) {
			return nil
		}
		for i, line := range strings.Split(string(data), "\n") {
			for _, b := range banned {
				if word := b.text.FindString(line); word != "" {
					findings = append(findings, fmt.Sprintf("%s:%d: %q: %s", p, i+1, word, b.why))
				}
			}
		}
		return nil
	})
	if err != nil {
		findings = append(findings, err.Error())
	}
	return findings
}

var directive = regexp.MustCompile(`(?m)^\s*(replace|exclude)\b`)

// checkModule keeps the module installable: the go command refuses to install a
// program of a module that replaces or excludes others.
func checkModule(t *sourcetree.Tree) []string {
	mod, err := fs.ReadFile(t.FS, "go.mod")
	if err != nil {
		return []string{err.Error()}
	}
	var findings []string
	for _, m := range directive.FindAllSubmatch(mod, -1) {
		findings = append(findings, fmt.Sprintf("go.mod: %s: go install refuses a program whose module has this directive", m[1]))
	}
	return findings
}
