package timeoutbench

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func config(t *testing.T) Config {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Contenders: []string{"null", "survival", "purgatory"}, Sizes: []int{100, 300}, Loads: []string{"same"}, Rounds: 3,
		Program: program, Args: args,
	}
}

func TestRun(t *testing.T) {
	c := config(t)
	began, done := make(map[Task]int), 0
	c.Step = func(_ int, task Task) { began[task]++ }
	c.Done = func() { done++ }
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(began) != 6 || done != 18 {
		t.Errorf("%d tasks in %d measurements, want 6 in 18", len(began), done)
	}
	for _, cell := range r.Cells {
		if len(cell.Rounds) != 3 || cell.Least > cell.Median || cell.Median > cell.Most || cell.Unit == "" {
			t.Errorf("%+v", cell)
		}
	}
	cell, ok := r.Find(Task{"survival", 300, "same"}, Add)
	if !ok || cell.Median <= 0 {
		t.Errorf("survival's add: %+v, %v", cell, ok)
	}
	if _, ok := r.Find(Task{"purgatory", 300, "same"}, Expire); ok {
		t.Error("the purgatory was told the time")
	}
	picture(t, r)
}

// picture checks that it can be parsed and labels its contenders.
func picture(t *testing.T, r Report) {
	t.Helper()
	svg := r.Picture("null")
	d := xml.NewDecoder(strings.NewReader(svg))
	var lines, texts int
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "polyline" {
			lines++
		}
		if text, ok := token.(xml.CharData); ok && slices.Contains(r.Contenders, string(text)) {
			texts++
		}
	}
	// Four panels of two lines, but the purgatory has none in the last.
	if lines != 7 || texts != 7 {
		t.Errorf("%d lines and %d names, want 7 each:\n%s", lines, texts, svg)
	}
	for _, bad := range []string{"NaN", "Inf", "%!", ">null<"} {
		if strings.Contains(svg, bad) {
			t.Errorf("%s in the picture:\n%s", bad, svg)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	nobody := config(t)
	nobody.Contenders = []string{"sundial"}
	if _, err := Run(t.Context(), nobody); err == nil || !strings.Contains(err.Error(), `there is no contender "sundial"`) {
		t.Errorf("a contender that is none: %v", err)
	}
	empty := config(t)
	empty.Rounds = 0
	if _, err := Run(t.Context(), empty); err == nil {
		t.Error("no rounds were run")
	}
	ctx, cancel := context.WithCancel(t.Context())
	interrupted := config(t)
	interrupted.Done = cancel
	if _, err := Run(ctx, interrupted); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestParseSizes(t *testing.T) {
	for text, want := range map[string][]int{
		"10k": {10_000}, "1M,100, 10K": {100, 10_000, 1_000_000}, "500,500": {500}, "10m": {10_000_000},
	} {
		got, err := ParseSizes(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "99", "11M", "10000001", "-5k", "1e6", "k", "10kk", "9999999999999999999999k", "1k,", "100,101,102,103,104,105,106,107,108"} {
		if got, err := ParseSizes(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{999: "999", 1000: "1k", 1500: "1500", 100_000: "100k", 10_000_000: "10M"} {
		if got := Count(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
