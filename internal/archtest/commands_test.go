package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"

	"github.com/txmgr/txmgr/internal/sourcetree"
)

// checkCommands finds command lines of txmgr in the texts of packages that have users without the
// program: those of the HTTP API, and of an embedded coordinator. Such a text names the call, and
// cmd/txmgr composes the command.
func checkCommands(t *sourcetree.Tree) []string {
	names := commandNames(t)
	if len(names) == 0 {
		return nil
	}
	// After an article it is no command line, but prose: a txmgr server.
	command := regexp.MustCompile(`(?:\b(an?) )?\b(txmgr (?:` + strings.Join(names, "|") + `))\b`)
	var findings []string
	for _, p := range t.Packages {
		if under("cmd", p.Dir) || under("internal", p.Dir) || under("examples", p.Dir) || forTests(p.Dir) && !under("server/servertest", p.Dir) {
			continue
		}
		for _, f := range code(p) {
			ast.Inspect(f.AST, func(n ast.Node) bool {
				text, ok := stringLiteral(n)
				if !ok {
					return true
				}
				for _, found := range command.FindAllStringSubmatch(text, -1) {
					if found[1] == "" {
						findings = append(findings, fmt.Sprintf("%s: %q is a command line: name the call, and let cmd/txmgr compose the command", t.Pos(n), found[2]))
					}
				}
				return true
			})
		}
	}
	return findings
}

// commandNames are the names of the commands, by the field Use of those in cmd/txmgr.
func commandNames(t *sourcetree.Tree) (names []string) {
	for _, p := range t.Packages {
		if !under("cmd/txmgr", p.Dir) {
			continue
		}
		for _, f := range code(p) {
			ast.Inspect(f.AST, func(n ast.Node) bool {
				kv, ok := n.(*ast.KeyValueExpr)
				if !ok {
					return true
				}
				key, ok := kv.Key.(*ast.Ident)
				if use, isText := stringLiteral(kv.Value); ok && key.Name == "Use" && isText {
					name, _, _ := strings.Cut(use, " ")
					names = append(names, regexp.QuoteMeta(name))
				}
				return true
			})
		}
	}
	return names
}

// stringLiteral returns the value of a string literal.
func stringLiteral(n ast.Node) (text string, ok bool) {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}
