package output_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

type thing struct {
	Name  string   `json:"name"`
	Count uint64   `json:"count"`
	Tags  []string `json:"tags"`
}

func document() output.Document {
	things := []thing{{"bank", 18446744073709551615, []string{"a: b", "7"}}, {"stock <&>", 0, []string{}}}
	t := output.Table{Columns: []output.Column{{Name: "NAME"}, {Name: "COUNT", Wide: true}, {Name: "STATE", State: true}}}
	t.Add("bank", "1", "committed")
	t.Add("stock <&>", "", "rolled-back")
	return output.Document{Value: things, IDs: []string{"bank", "stock <&>"}, Tables: []output.Table{t}}
}

func print(t *testing.T, p *output.Printer, d output.Document) string {
	t.Helper()
	var out bytes.Buffer
	p.Out, p.Err = &out, &out
	if err := p.Print(d); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestFormats(t *testing.T) {
	for _, c := range []struct {
		format output.Format
		want   string
	}{
		{output.TableFormat, "NAME        STATE\nbank        committed\nstock <&>   rolled-back\n"},
		{output.WideFormat, "NAME        COUNT   STATE\nbank        1       committed\nstock <&>   -       rolled-back\n"},
		{output.IDFormat, "bank\nstock <&>\n"},
		{output.JSONLFormat, `{"name":"bank","count":18446744073709551615,"tags":["a: b","7"]}` + "\n" + `{"name":"stock <&>","count":0,"tags":[]}` + "\n"},
		{output.YAMLFormat, "- name: bank\n  count: 18446744073709551615\n  tags:\n    - 'a: b'\n    - \"7\"\n- name: stock <&>\n  count: 0\n  tags: []\n"},
	} {
		if diff := cmp.Diff(c.want, print(t, &output.Printer{Format: c.format}, document())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.format, diff)
		}
	}
}

func TestEmptyListIsAnAnswer(t *testing.T) {
	d := output.Document{Value: []thing{}, Tables: []output.Table{{Columns: output.Columns("NAME", "STATE")}}}
	for format, want := range map[output.Format]string{
		output.TableFormat: "NAME   STATE\n", output.JSONFormat: "[]\n", output.JSONLFormat: "", output.YAMLFormat: "[]\n", output.IDFormat: "",
	} {
		if got := print(t, &output.Printer{Format: format}, d); got != want {
			t.Errorf("%s: got %q, want %q", format, got, want)
		}
	}
}

// Rule 3: no name reaches the terminal with a control character.
func TestCellsHoldNoControls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cell := rapid.String().Draw(t, "cell")
		if rapid.Bool().Draw(t, "raw bytes") {
			cell = string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		}
		var out bytes.Buffer
		p := output.Printer{Out: &out}
		table := output.Table{Columns: output.Columns("A", "B")}
		table.Add(cell, "end")
		if err := p.Print(output.Document{Value: cell, Tables: []output.Table{table}}); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(out.String(), "\n")
		if len(lines) != 3 || !strings.HasSuffix(lines[1], "   end") {
			t.Fatalf("%q tore the table: %q", cell, out.String())
		}
		for _, r := range lines[1] {
			if r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x202e {
				t.Fatalf("%q let %U through", cell, r)
			}
		}
	})
}

// YAML equals JSON, whatever the texts are.
func TestYAMLIsTheJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.MapOf(rapid.String(), rapid.SliceOf(rapid.String())).Draw(t, "value")
		var y, j bytes.Buffer
		for format, out := range map[output.Format]*bytes.Buffer{output.YAMLFormat: &y, output.JSONFormat: &j} {
			p := output.Printer{Out: out, Format: format}
			if err := p.Print(output.Document{Value: v}); err != nil {
				t.Fatal(err)
			}
		}
		var fromYAML, fromJSON map[string][]string
		if err := yaml.Unmarshal(y.Bytes(), &fromYAML); err != nil {
			t.Fatalf("%v in %q", err, y.String())
		}
		if err := json.Unmarshal(j.Bytes(), &fromJSON); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(fromJSON, fromYAML); diff != "" {
			t.Fatalf("(-json +yaml):\n%s\n%s", diff, y.String())
		}
	})
}

func TestColours(t *testing.T) {
	got := print(t, &output.Printer{ColorOut: true}, document())
	want := "\x1b[2mNAME\x1b[0m        \x1b[2mSTATE\x1b[0m\nbank        \x1b[32mcommitted\x1b[0m\nstock <&>   \x1b[31mrolled-back\x1b[0m\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		mode    string
		noColor bool
		want    bool
	}{{"always", true, true}, {"never", false, false}, {"auto", false, false}} {
		if got := output.ColorFor(c.mode, c.noColor, &bytes.Buffer{}); got != c.want {
			t.Errorf("--color %s, NO_COLOR %v, no terminal: %v", c.mode, c.noColor, got)
		}
	}
}

func TestStreamWritesItsHeaderOnce(t *testing.T) {
	for format, want := range map[output.Format]string{
		output.TableFormat: "N     STATE\na     active\nb     committed\n",
		output.JSONFormat:  "{\"n\":\"a\"}\n{\"n\":\"b\"}\n",
		output.YAMLFormat:  "n: a\n---\nn: b\n",
		output.IDFormat:    "a\nb\n",
	} {
		var out bytes.Buffer
		p := output.Printer{Out: &out, Format: format}
		s := p.Stream(output.Column{Name: "N", Width: 3}, output.Column{Name: "STATE"})
		for _, row := range [][2]string{{"a", "active"}, {"b", "committed"}} {
			if err := s.Emit(map[string]string{"n": row[0]}, row[0], row[:]...); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
	}
}

func TestFailures(t *testing.T) {
	id, err := txn.ParseID("tx_01k9x3v7h2m8qf4r6t0bz5n1de")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		err    error
		status int
		want   string
	}{
		{
			"rolled back", &txn.Error{Op: "commit", ID: id, State: txn.RolledBack, Cause: txn.CauseTimeout, Err: txn.ErrRolledBack}, 3,
			"error: commit tx_01k9x3v7h2m8qf4r6t0bz5n1de: rolled back\n" +
				" cause: its timeout expired before it was decided\n" +
				" state: rolled-back: nothing was applied on any participant\n" +
				" hint:  txmgr inspect tx_01k9x3v7h2m8qf4r6t0bz5n1de\n",
		},
		{
			"wrapped sentinel", &txn.Error{Op: "begin", Err: fmt.Errorf("%w: timeout 0s: too short", txn.ErrInvalid)}, 2,
			"error: begin: invalid argument\n cause: timeout 0s: too short\n",
		},
		{
			"in doubt beats its reason", &txn.Error{Op: "commit", ID: id, Err: fmt.Errorf("%w: %w", txn.ErrInDoubt, txn.ErrUnavailable)}, 4,
			"error: commit tx_01k9x3v7h2m8qf4r6t0bz5n1de: outcome in doubt\n cause: unavailable\n" +
				" hint:  ask again: txmgr inspect tx_01k9x3v7h2m8qf4r6t0bz5n1de\n",
		},
		{
			"ended by hand", &txn.Error{Op: "commit", ID: id, State: txn.RolledBack, Cause: txn.CauseClient, Heuristic: txn.HeuristicCommit, Err: txn.ErrEndedByApplication}, 4,
			"error: commit tx_01k9x3v7h2m8qf4r6t0bz5n1de: branch was, or may have been, ended by statements of the application's own\n" +
				" cause: the application rolled it back\n" +
				" state: rolled-back, heuristic committed: decided, but a branch ended otherwise\n" +
				" hint:  check the data before repeating the work: txmgr indoubt explain tx_01k9x3v7h2m8qf4r6t0bz5n1de\n",
		},
		{"ready made", fmt.Errorf("about to: %w", output.Usage("do it so", "not %q", "so")), 2, "error: not \"so\"\n hint:  do it so\n"},
		{"hostile", errors.New("a\x1b[2Jb\n hint:  lie"), 1, "error: a\\x1b[2Jb\n        hint:  lie\n"},
		{"interrupted", fmt.Errorf("wait: %w", context.Canceled), 130, "error: interrupted\n"},
	} {
		var out bytes.Buffer
		p := output.Printer{Err: &out}
		if status := p.Fail(c.err); status != c.status {
			t.Errorf("%s: exit code %d, want %d", c.name, status, c.status)
		}
		if diff := cmp.Diff(c.want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestFailureForPrograms(t *testing.T) {
	var out bytes.Buffer
	p := output.Printer{Err: &out, Format: output.JSONFormat}
	err := &txn.Error{Op: "commit", State: txn.Committed, Err: txn.ErrNotActive, Detail: "d"}
	if status := p.Fail(err); status != 6 {
		t.Errorf("exit code %d", status)
	}
	want := `{"error":{"code":"CONFLICT","message":"commit: transaction is not active","cause":"d","state":"committed","hint":""}}` + "\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// Every code of package txn has an exit code of its own.
func TestEveryCodeHasAnExitCode(t *testing.T) {
	seen := map[int]txn.Code{}
	for _, e := range output.ExitCodes() {
		if other, ok := seen[e.Status]; ok {
			t.Errorf("%s and %s are both %d", e.Code, other, e.Status)
		}
		seen[e.Status] = e.Code
		if e.Meaning == "" || output.ExitCode(e.Code) != e.Status {
			t.Errorf("%+v", e)
		}
	}
	for _, c := range []txn.Code{
		txn.CodeOK, txn.CodeError, txn.CodeUsage, txn.CodeRolledBack, txn.CodeInDoubt, txn.CodeNotFound,
		txn.CodeConflict, txn.CodeTimedOut, txn.CodeUnavailable, txn.CodeDenied, txn.CodeUnhealthy,
	} {
		if c != txn.CodeError && output.ExitCode(c) == 1 {
			t.Errorf("%s exits as an unknown error", c)
		}
	}
	if output.ExitCode("NEWER_THAN_WE") != 1 {
		t.Error("an unknown code must be an error")
	}
}

func TestClosest(t *testing.T) {
	words := []string{"commit", "rollback", "inspect", "data_dir", "list"}
	for word, want := range map[string]string{
		"comit": "commit", "COMMIT": "commit", "roll": "rollback", "data-dir": "data_dir", "lsit": "list", "inspcet": "inspect",
		"banana": "", "": "", "x": "",
	} {
		if got, ok := output.Suggest(word, words); ok != (want != "") || ok && got != want {
			t.Errorf("Closest(%q) = %q, %v; want %q", word, got, ok, want)
		}
	}
}

func TestSince(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1: "0s", 14 * time.Millisecond: "14ms", 12345 * time.Millisecond: "12.3s", 252 * time.Second: "4m12s",
		3*time.Hour + 5*time.Minute + 40*time.Second: "3h6m", 55 * time.Hour: "2d7h",
	} {
		if got := output.Since(d); got != want {
			t.Errorf("Since(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestQuietAndProgramsHearNoNotes(t *testing.T) {
	for _, p := range []*output.Printer{{Quiet: true}, {Format: output.JSONFormat}, {Format: output.IDFormat}} {
		var out bytes.Buffer
		p.Err = &out
		p.Note("hello")
		g := p.Progress("work", 2, time.Time{})
		g.Step(time.Time{}.Add(time.Hour))
		if out.Len() > 0 {
			t.Errorf("%+v heard %q", p.Format, out.String())
		}
	}
	var out bytes.Buffer
	p := &output.Printer{Err: &out}
	p.Note("hello")
	g := p.Progress("work", 3, time.Time{})
	g.Step(time.Time{}.Add(time.Second))
	g.Step(time.Time{}.Add(time.Minute))
	if want := "hello\nwork: 2 of 3\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// A committed transaction with a lost branch is not described as applied.
func TestMeaningWithAHeuristicOutcome(t *testing.T) {
	for h, want := range map[txn.Heuristic]string{0: "applied on every", txn.HeuristicHazard: "unknown", txn.HeuristicMixed: "otherwise"} {
		if got := output.Meaning(txn.Committed, h); !strings.Contains(got, want) {
			t.Errorf("committed with heuristic %q: %q", h, got)
		}
	}
}

// TestMeaningOfABranchEndedByHand: the meaning does not claim that nothing was applied, unless that
// is known; a commit is a commit.
func TestMeaningOfABranchEndedByHand(t *testing.T) {
	info := txn.Info{Branches: []txn.BranchInfo{{Vote: txn.VotePrepared}, {Vote: txn.VoteEndedByApplication}}}
	for _, s := range []txn.State{txn.RollingBack, txn.RolledBack} {
		info.State = s
		if got := output.InfoMeaning(info); !strings.Contains(got, "may be committed") {
			t.Errorf("%v: %s", s, got)
		}
	}
	info.Heuristic = txn.HeuristicMixed
	if got, want := output.InfoMeaning(info), output.Meaning(txn.RolledBack, txn.HeuristicMixed); got != want {
		t.Errorf("with a heuristic: %s; want %s", got, want)
	}
	info.Heuristic = 0
	for _, s := range []txn.State{txn.Preparing, txn.Committed} {
		info.State = s
		if got, want := output.InfoMeaning(info), output.StateMeaning(s); got != want {
			t.Errorf("%v: %s; want %s", s, got, want)
		}
	}
}
