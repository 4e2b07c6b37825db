package doctest

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

const firstPage = "README.md"

var externalLink = regexp.MustCompile(`^[a-z]+:`)

func checkLinks(b *docSet) []string {
	var findings []string
	byPath := map[string]*page{}
	for _, p := range b.pages {
		byPath[p.path] = p
	}
	next := map[string][]string{}
	for _, p := range b.pages {
		for _, l := range p.links {
			if externalLink.MatchString(l.text) {
				continue
			}
			target, anchor, _ := strings.Cut(l.text, "#")
			to, problem := follow(b.fs, byPath, p, target, anchor)
			if problem != "" {
				findings = append(findings, fmt.Sprintf("%s:%d: link to %s: %s", p.path, l.line, l.text, problem))
			}
			next[p.path] = append(next[p.path], to)
		}
	}
	reached := map[string]bool{}
	reach(firstPage, next, reached)
	for _, p := range b.pages {
		if strings.HasPrefix(p.path, "docs/") && !reached[p.path] {
			findings = append(findings, fmt.Sprintf("%s: no way of links leads here from %s", p.path, firstPage))
		}
	}
	return findings
}

// follow returns the file of a link, and what is wrong with the link.
func follow(fsys fs.FS, byPath map[string]*page, from *page, target, anchor string) (to, problem string) {
	to = from.path
	if target != "" {
		to = path.Join(path.Dir(from.path), target)
	}
	switch {
	case strings.HasPrefix(target, "/") || strings.HasPrefix(to, ".."):
		return to, "leads out of the repository"
	case anchor == "":
	case byPath[to] == nil:
		return to, "an anchor in a file that has no headings"
	case !byPath[to].anchors[anchor]:
		return to, fmt.Sprintf("%s has no heading with this anchor", to)
	}
	if _, err := fs.Stat(fsys, to); err != nil {
		return to, "does not exist"
	}
	return to, ""
}

func reach(from string, next map[string][]string, reached map[string]bool) {
	if reached[from] {
		return
	}
	reached[from] = true
	for _, to := range next[from] {
		reach(to, next, reached)
	}
}
