package doctest

import (
	"bufio"
	"bytes"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode"
)

// page is one Markdown file, parsed as far as the rules need it.
type page struct {
	path    string // below the root
	anchors map[string]bool
	links   []span
	inline  []span // inline code
	blocks  []block
	text    string
}

// span is a piece of a page.
type span struct {
	text string
	line int
}

// block is a fenced block of code.
type block struct {
	lang  string
	attrs map[string]string
	text  string
	line  int // of its first line of code
}

var (
	fence       = regexp.MustCompile("^ *(```+|~~~+) *(.*)$")
	heading     = regexp.MustCompile(`^#{1,6} +(.*?) *#*$`)
	inlineCode  = regexp.MustCompile("`([^`]+)`")
	inlineLink  = regexp.MustCompile(`\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)`)
	linkTarget  = regexp.MustCompile(`^\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)`)
	htmlAnchor  = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	linkedWords = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	attr        = regexp.MustCompile(`(\w+)=("([^"]*)"|\S+)`)
)

// pages reads every Markdown file below the root, except those of testdata.
func pages(fsys fs.FS) ([]*page, error) {
	var all []*page
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != "." && (d.Name() == "testdata" || d.Name()[0] == '.'):
			return fs.SkipDir
		case d.IsDir() || path.Ext(p) != ".md":
			return nil
		}
		data, err := fs.ReadFile(fsys, p)
		if err == nil {
			all = append(all, readPage(p, data))
		}
		return err
	})
	return all, err
}

func readPage(name string, data []byte) *page {
	p := &page{path: name, anchors: map[string]bool{}, text: string(data)}
	var open *block
	var mark string
	scan := bufio.NewScanner(bytes.NewReader(data))
	scan.Buffer(nil, len(data)+1)
	for n := 1; scan.Scan(); n++ {
		line := scan.Text()
		m := fence.FindStringSubmatch(line)
		switch {
		case open != nil && m != nil && strings.HasPrefix(m[1], mark) && m[2] == "":
			p.blocks = append(p.blocks, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		case m != nil:
			open, mark = &block{line: n + 1, attrs: map[string]string{}}, m[1]
			var rest string
			open.lang, rest, _ = strings.Cut(m[2], " ")
			for _, a := range attr.FindAllStringSubmatch(rest, -1) {
				open.attrs[a[1]] = strings.Trim(a[2], `"`)
			}
		default:
			p.readLine(line, n)
		}
	}
	return p
}

func (p *page) readLine(line string, n int) {
	if m := heading.FindStringSubmatch(line); m != nil {
		p.addAnchor(slug(m[1]))
	}
	for _, m := range htmlAnchor.FindAllStringSubmatch(line, -1) {
		p.anchors[m[1]] = true
	}
	for _, m := range inlineCode.FindAllStringSubmatch(line, -1) {
		p.inline = append(p.inline, span{m[1], n})
	}
	bare := inlineCode.ReplaceAllString(line, "")
	for _, m := range inlineLink.FindAllStringSubmatch(bare, -1) {
		p.links = append(p.links, span{m[1], n})
	}
	if m := linkTarget.FindStringSubmatch(bare); m != nil {
		p.links = append(p.links, span{m[1], n})
	}
}

// addAnchor numbers anchors of equal headings as the usual renderers do.
func (p *page) addAnchor(a string) {
	name := a
	for i := 1; p.anchors[name]; i++ {
		name = a + "-" + string(rune('0'+i%10))
	}
	p.anchors[name] = true
}

// slug makes the anchor of a heading as the usual renderers do.
func slug(h string) string {
	h = linkedWords.ReplaceAllString(h, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, h)
}
