package output

import (
	"fmt"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/txn"
)

// Format is how results are written.
type Format string

// The formats. Table is the default.
const (
	TableFormat Format = "table" // for people
	WideFormat  Format = "wide"  // for wide terminals: more columns
	JSONFormat  Format = "json"  // one indented value
	JSONLFormat Format = "jsonl" // one line for each element
	YAMLFormat  Format = "yaml"  // the json as yaml
	IDFormat    Format = "id"    // only the ids, for loops in shells
)

// Formats lists all formats.
func Formats() []string {
	return []string{
		string(TableFormat), string(WideFormat), string(JSONFormat),
		string(JSONLFormat), string(YAMLFormat), string(IDFormat),
	}
}

// ParseFormat reads the name of a format; the empty text is the default.
func ParseFormat(s string) (Format, error) {
	if s == "" {
		return TableFormat, nil
	}
	if slices.Contains(Formats(), s) {
		return Format(s), nil
	}
	return "", &Failure{
		Code: txn.CodeUsage, What: fmt.Sprintf("unknown output format %q", Sanitize(s)),
		Cause: "the formats are " + strings.Join(Formats(), ", "), Hint: DidYouMean(s, Formats(), "-o "),
	}
}

// Structured reports whether the output is for programs.
func (f Format) Structured() bool {
	return f == JSONFormat || f == JSONLFormat || f == YAMLFormat
}

// Suggest returns the candidate closest to s; ok is false if none is close.
func Suggest(s string, candidates []string) (closest string, ok bool) {
	s = strings.ToLower(s)
	best := len(s)/2 + 1
	for _, c := range candidates {
		if s != "" && strings.HasPrefix(c, s) {
			return c, true
		}
		if d := editDistance(s, c); d < best {
			closest, best = c, d
		}
	}
	return closest, closest != "" && best <= 3
}

// DidYouMean is [Suggest] as a sentence; empty if no candidate is close.
func DidYouMean(s string, candidates []string, prefix string) string {
	c, ok := Suggest(s, candidates)
	if !ok {
		return ""
	}
	return fmt.Sprintf("did you mean %s%s?", prefix, c)
}

// editDistance is the number of letters to insert, delete, replace or swap with an adjacent one in
// order to turn a into b (optimal string alignment).
func editDistance(a, b string) int {
	var before, last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
