package doctest

import "strings"

// fake is the program that the archives in testdata assume: only the help texts.
type fake map[string]string // help by the command's path

var fakeProgram = fake{
	"":                   "Flags: -o, --output FORMAT",
	"begin":              "Usage: begin [PARTICIPANT...] [--name N] [-q|--quiet]",
	"participant":        "Usage: participant COMMAND",
	"participant add":    "Usage: participant add NAME [--kind=postgres]",
	"participant remove": "Usage: participant remove NAME",
	"help":               "Usage: help [COMMAND]",
	"help begin":         "Usage: begin",
	"help exit-codes":    "What they mean",
}

func (f fake) commands(path []string) []string {
	var names []string
	for key := range f {
		words := strings.Fields(key)
		if len(words) == len(path)+1 && strings.Join(words[:len(path)], " ") == strings.Join(path, " ") {
			names = append(names, words[len(path)])
		}
	}
	return names
}

func (f fake) help(path []string) string { return f[strings.Join(path, " ")] }
