package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
	"github.com/txmgr/txmgr/txn/admin"
)

func latenciesOf(ds ...time.Duration) *rig.Latencies {
	l := new(rig.Latencies)
	for _, d := range ds {
		l.Record(d)
	}
	return l
}

// result is a round in which every transaction took so long, at so many a second.
func result(took time.Duration, perSecond float64, cpu usage, l *logged) round {
	return round{Sample: rig.Sample{PerSecond: perSecond, Latencies: latenciesOf(took, took, took)}, CPU: cpu, Log: l}
}

// sampled is a report of three rounds.
func sampled() report {
	find := func(key string) *contender {
		for _, c := range all {
			if c.Key == key {
				return c
			}
		}
		return nil
	}
	own := usage{Application: 100 * time.Microsecond, PostgreSQL: 50 * time.Microsecond, MariaDB: 50 * time.Microsecond}
	more := usage{Application: 200 * time.Microsecond, Coordinator: 300 * time.Microsecond, PostgreSQL: 50 * time.Microsecond, MariaDB: 50 * time.Microsecond}
	r := report{Rounds: 3, DiskBefore: latenciesOf(time.Millisecond), DiskAfter: latenciesOf(time.Millisecond), Rows: []*row{
		{contender: find("manual"), Workers: 8, Results: []round{
			result(time.Millisecond, 1000, own, nil), result(2*time.Millisecond, 500, own, nil), result(4*time.Millisecond, 250, own, nil),
		}},
		{contender: find("server"), Workers: 8, Results: []round{
			result(3*time.Millisecond, 500, more, &logged{5, 10}), result(4*time.Millisecond, 250, more, &logged{3, 6}), result(20*time.Millisecond, 25, more, &logged{4, 8}),
		}},
		{contender: find("outbox"), Workers: 32, Results: []round{result(time.Millisecond, 9, own, nil)}},
	}}
	r.Rows[2].Results[0].Delivered = latenciesOf(40 * time.Millisecond)
	r.summarise()
	return r
}

func near(got, want float64) bool { return got > 0.999*want && got < 1.001*want }

// Ratios are of the same round: those of medians would be 2 for the times here.
func TestSummary(t *testing.T) {
	r := sampled()
	s := r.Rows[1].Summary
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"p50", ms(s.P50), 4},
		{"p99", ms(s.P99), 20},
		{"per second", s.PerSecond, 250},
		{"× p50", s.Times.P50.Median, 3},
		{"least", s.Times.P50.Least, 2},
		{"most", s.Times.P50.Most, 5},
		{"× per second", s.Times.PerSecond.Median, 0.5},
		{"× CPU", s.Times.CPU.Median, 3},
		{"coordinator", us(s.CPU.Coordinator), 300},
		{"entries", s.Log.Entries, 4},
		{"syncs", s.Log.Syncs, 8},
		{"delivered", ms(r.Rows[2].Summary.Delivered50), 40},
	} {
		if !near(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
	if manual := r.Rows[0].Summary; manual.Times != nil || manual.Log != nil || manual.Delivered50 != 0 {
		t.Errorf("manually: %+v", manual)
	}
	if outbox := r.Rows[2].Summary; outbox.Times != nil {
		t.Error("a ratio with what was not measured with as many workers")
	}
}

func TestTable(t *testing.T) {
	r := sampled()
	var b strings.Builder
	if err := r.print(&b); err != nil {
		t.Fatal(err)
	}
	lines := make(map[string]string)
	for line := range strings.Lines(b.String()) {
		fields := strings.Join(strings.Fields(line), " ")
		name, figures, _ := strings.Cut(fields, " 8 ")
		lines[name] = figures
	}
	if got, want := lines["txmgr server"], "250 4.00 20.00 3.00 (2.00 to 5.00) 0.50 200 300 50 50 3.00 4.00 8.00"; got != want {
		t.Errorf("server: %q, want %q", got, want)
	}
	if got, want := lines["manual, one after the other"], "500 2.00 4.00 100 0 50 50"; got != want {
		t.Errorf("manually: %q, want %q", got, want)
	}
	for _, want := range []string{"until MariaDB has it", "8 workers: 3.00 (2.00 to 5.00), goal ≤ 1.15: MISSED"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
	if strings.Contains(b.String(), "of which") {
		t.Error("a delay that there was not")
	}
}

func TestWriteJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "result.json")
	if err := writeJSON(file, sampled()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Rows []struct {
			Key     string `json:"key"`
			Workers int    `json:"workers"`
			Summary struct {
				P50   int64 `json:"p50_ns"`
				Times struct {
					P50 spread `json:"p50"`
				} `json:"times"`
			} `json:"summary"`
			Rounds []struct {
				PerSecond float64 `json:"pairs_per_second"`
			} `json:"rounds"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if s := got.Rows[1]; s.Key != "server" || s.Workers != 8 || !near(float64(s.Summary.P50), 4e6) || !near(s.Summary.Times.P50.Most, 5) || len(s.Rounds) != 3 || s.Rounds[2].PerSecond != 25 {
		t.Errorf("%+v", s)
	}
	if err := writeJSON(filepath.Join(file, "below"), sampled()); err == nil || !strings.Contains(err.Error(), "-json") {
		t.Errorf("error %v", err)
	}
	if err := writeJSON("", nil); err != nil {
		t.Error(err)
	}
}

// The figures of the log are those of all nodes, for each transaction in between.
func TestLogFigures(t *testing.T) {
	then := readLog([]admin.Status{{Entries: 100, Syncs: 200}, {Syncs: 190}, {Syncs: 180}})
	now := readLog([]admin.Status{{Entries: 110, Syncs: 220}, {Syncs: 210}, {Syncs: 200}})
	if got, want := now.since(then, 5), (logged{Entries: 2, Syncs: 12}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
