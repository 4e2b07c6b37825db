package archtest

import (
	"fmt"
	"go/ast"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/txmgr/txmgr/internal/sourcetree"
)

// bannedNames are words that stand in no identifier and no file name: metaphors for what
// docs/glossary.md has a term of the field for.
var bannedNames = map[string]string{
	"steward": "autopilot", "pulse": "session expirer", "lodger": "session", "guest": "pending connection",
	"vigil": "call watcher", "crew": "worker pool", "brain": "optimizer", "story": "summary",
	"census": "snapshot of a server's state", "testimony": "report", "ballot": "votes",
	"twin": "model", "neighbours": "peers",
	"allegiance": "cluster identity", "founder": "bootstrapper", "founding": "bootstrap", "timekeeper": "tick scheduler",
	"stranger": "unknown node or client", "muster": "synchronize", "heir": "transfer target", "kit": "provision",
}

// bannedProse are words of comments and pages that hide who acts.
var bannedProse = regexp.MustCompile(`(?i)\b(whoever|somebody|nobody|sign of life|signs of life)\b`)

// checkVocabulary finds identifiers and file names with private words, prose that hides who acts, and
// types of the public API whose words the glossary does not have.
func checkVocabulary(t *sourcetree.Tree) []string {
	var findings []string
	for _, p := range t.Packages {
		for _, f := range p.Files {
			if f.Generated {
				continue
			}
			for _, w := range splitWords(strings.TrimSuffix(path.Base(f.Path), ".go")) {
				if better, ok := bannedNames[w]; ok {
					findings = append(findings, fmt.Sprintf("%s: %q in a file name: %s", f.Path, w, better))
				}
			}
			seen := map[string]bool{}
			ast.Inspect(f.AST, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				if !ok || seen[id.Name] {
					return true
				}
				seen[id.Name] = true
				for _, w := range splitWords(id.Name) {
					if better, ok := bannedNames[w]; ok {
						findings = append(findings, fmt.Sprintf("%s: %q in %s: %s", t.Pos(id), w, id.Name, better))
					}
				}
				return true
			})
			for _, g := range f.AST.Comments {
				for _, c := range g.List {
					if w := bannedProse.FindString(c.Text); w != "" {
						findings = append(findings, fmt.Sprintf("%s: %q in a comment: name who acts", t.Pos(c), strings.ToLower(w)))
					}
				}
			}
		}
	}
	return append(append(findings, bannedPages(t)...), missingTerms(t)...)
}

// bannedPages finds the words of bannedProse in pages. Decisions and the change log tell of the past.
func bannedPages(t *sourcetree.Tree) []string {
	var findings []string
	err := fs.WalkDir(t.FS, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && p != "." || p == "bin" || p == "docs/decisions"):
			return fs.SkipDir
		case d.IsDir() || path.Ext(p) != ".md" || path.Base(p) == "CHANGELOG.md":
			return nil
		}
		data, err := fs.ReadFile(t.FS, p)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(data), "\n") {
			if w := bannedProse.FindString(line); w != "" {
				findings = append(findings, fmt.Sprintf("%s:%d: %q: name who acts", p, i+1, strings.ToLower(w)))
			}
		}
		return nil
	})
	if err != nil {
		findings = append(findings, err.Error())
	}
	return findings
}

// publicPackages are those that users import.
var publicPackages = []string{"txn", "txn/admin", "participant", "client", "node", "node/backup", "node/participants"}

// generalWords need no line in the glossary: every Go program has them.
var generalWords = strings.Fields(`
	account accounts action committer details effect goal header lock add all allow api apply at attempt audit backup batch bytes by call check checker checks client clusters code
	config configuration contents context count database decider default detail duration enlister error errors event events
	explanation extend file filter func handler health histogram id info inspector kind label level limit list
	manager max member metrics min mode name next option options outcome owner preparer probe range record ref report request
	resolver result role run secret server setting settings state states status summary time tls token type usage value
	version watch with write`)

// missingTerms finds exported types of the public API that are made of words which neither the glossary nor
// generalWords has.
func missingTerms(t *sourcetree.Tree) []string {
	data, err := fs.ReadFile(t.FS, "docs/glossary.md")
	if err != nil {
		return []string{err.Error()}
	}
	known := map[string]bool{}
	for _, w := range regexp.MustCompile(`[a-z]+`).FindAllString(strings.ToLower(string(data)), -1) {
		known[w] = true
	}
	var findings []string
	for _, dir := range publicPackages {
		p := t.Package(dir)
		if p == nil {
			continue
		}
		for _, f := range code(p) {
			for _, d := range f.AST.Decls {
				g, ok := d.(*ast.GenDecl)
				if !ok {
					continue
				}
				for _, s := range g.Specs {
					ts, ok := s.(*ast.TypeSpec)
					if !ok || !ts.Name.IsExported() {
						continue
					}
					for _, w := range splitWords(ts.Name.Name) {
						if singular := strings.TrimSuffix(w, "s"); !known[w] && !known[singular] && !slices.Contains(generalWords, w) && !slices.Contains(generalWords, singular) {
							findings = append(findings, fmt.Sprintf("%s: %s.%s: docs/glossary.md does not have %q", t.Pos(ts), dir, ts.Name.Name, w))
						}
					}
				}
			}
		}
	}
	return findings
}

// splitWords splits a name at underscores and where a capital letter begins a word, in lower case: "newXIDPrefix"
// is new, xid, prefix.
func splitWords(name string) []string {
	var words []string
	for _, part := range strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '-' || r == '.' }) {
		rs, start := []rune(part), 0
		for i := 1; i < len(rs); i++ {
			if unicode.IsUpper(rs[i]) && (!unicode.IsUpper(rs[i-1]) || i+1 < len(rs) && unicode.IsLower(rs[i+1])) {
				words, start = append(words, strings.ToLower(string(rs[start:i]))), i
			}
		}
		words = append(words, strings.ToLower(string(rs[start:])))
	}
	return words
}
