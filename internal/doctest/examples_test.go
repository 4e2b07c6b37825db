package doctest

import (
	"fmt"
	"go/ast"
	"io/fs"
	"slices"
	"strings"
)

// checkExamples finds blocks that claim to be from a function and are not: their lines, apart from
// indentation, have to be consecutive there.
func checkExamples(b *docSet) []string {
	var findings []string
	for _, p := range b.pages {
		for _, bl := range p.blocks {
			from, marked := bl.attrs["from"]
			if !marked {
				continue
			}
			file, name, _ := strings.Cut(from, " ")
			body, err := b.function(file, name)
			switch {
			case err != nil:
				findings = append(findings, fmt.Sprintf("%s:%d: from %q: %v", p.path, bl.line, from, err))
			case !containsLines(trimmed(bl.text), trimmed(body)):
				findings = append(findings, fmt.Sprintf("%s:%d: these are not lines of %s in %s", p.path, bl.line, name, file))
			}
		}
	}
	return findings
}

// function returns the text of a function.
func (b *docSet) function(file, name string) (string, error) {
	for _, p := range b.tree.Packages {
		for _, f := range p.Files {
			if f.Path != file {
				continue
			}
			for _, d := range f.AST.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || fn.Name.Name != name {
					continue
				}
				data, err := fs.ReadFile(b.fs, file)
				if err != nil {
					return "", err
				}
				return string(data[b.tree.Fset.Position(fn.Pos()).Offset:b.tree.Fset.Position(fn.End()).Offset]), nil
			}
		}
	}
	return "", fmt.Errorf("want a file of the repository and a function in it, as in from=\"a/a_test.go Example\"")
}

// trimmed returns the lines that are not empty.
func trimmed(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func containsLines(part, all []string) bool {
	for i := range len(all) - len(part) + 1 {
		if slices.Equal(part, all[i:i+len(part)]) {
			return len(part) > 0
		}
	}
	return false
}
