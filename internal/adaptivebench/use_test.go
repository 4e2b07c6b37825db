package adaptivebench

import (
	"crypto/sha256"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestKernelsLineOfAProcess(t *testing.T) {
	const line = "42 (a (strange) name) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 1000 200 20 0 8 0 100 0 0"
	for ended, want := range map[bool]float64{false: 3, true: 15} {
		if got, ok := cpuIn(line, ended); !ok || got != want {
			t.Errorf("%v s, %v, want %v", got, ok, want)
		}
	}
	for _, bad := range []string{"", "42", "42 (name", "42 (name) S 1 2 3", strings.Replace(line, "250", "many", 1)} {
		if got, ok := cpuIn(bad, false); ok {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

// TestUseOfThisProcess has it compute and write, and looks whether both are counted.
func TestUseOfThisProcess(t *testing.T) {
	before, ok := readResourceUse(0)
	if !ok {
		t.Fatal("the kernel does not tell")
	}
	const size = 8 << 20
	f, err := os.Create(filepath.Join(t.TempDir(), "written"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := make([]byte, size)
	for after := before; after.cpu < before.cpu+0.05; after, _ = readResourceUse(0) { // it cannot end unless time is counted
		h := sha256.Sum256(sum)
		copy(sum, h[:])
	}
	if _, err := f.Write(sum); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	after, _ := readResourceUse(0)
	if got := after.written - before.written; got < 0 || got > 100*size {
		t.Errorf("%v bytes were written", got) // a file system in memory counts none
	}
}

// TestMeter has pieces of a second at least, and none where nothing is known.
func TestMeter(t *testing.T) {
	m := newMeter(0)
	var all []Use
	for _, at := range []time.Duration{400, 999, 1000, 1500, 2500} {
		all = m.read(all, at*time.Millisecond, 10)
	}
	if len(all) != 2 || all[0].At != 10 || all[1].At != 25 || all[0].CPU < 0 || all[0].Written < 0 {
		t.Errorf("%+v", all)
	}
	if all := newMeter(-1).read(nil, time.Hour, 1); len(all) != 0 {
		t.Errorf("of a process that is not there: %+v", all)
	}
}

func TestMeanUse(t *testing.T) {
	r := Result{Uses: []Use{{10, 1, 100}, {40, 2, 0}}}
	if got, ok := r.MeanUse(); !ok || got != (Use{40, 1.75, 25}) {
		t.Errorf("%+v, %v", got, ok)
	}
	if got, ok := (Result{}).MeanUse(); ok {
		t.Errorf("%+v of nothing", got)
	}
}

// TestUseIsMeasured is an experiment of two seconds with a database.
func TestUseIsMeasured(t *testing.T) {
	t.Parallel()
	c := short("dbwrite")
	c.Contenders, c.Speed = []Contender{{Name: "throughput"}}, 24
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	use, ok := r.Results[0].MeanUse()
	if !ok || use.CPU <= 0 || use.CPU > float64(r.CPUs)+0.1 || use.Written <= 0 {
		t.Errorf("%+v, %v, with %d processors", use, ok, r.CPUs)
	}
	if at := r.Results[0].Uses[0].At; at < 24 || at > 60 {
		t.Errorf("the first piece ends at %v s of the source's 60", at)
	}
	wantReport(t, r)
}

func TestRest(t *testing.T) {
	s := Sizes{1, []Resize{{Size: 11, at: 2 * time.Second}, {Size: 21, at: 3 * time.Second}, {Size: 11, at: 4 * time.Second}, {Size: 1, at: 9 * time.Second}}}
	for _, tt := range []struct {
		from, to time.Duration
		want     Rest
	}{
		{0, 10, Rest{11, 0.6, 20}},
		{3, 10, Rest{11, 5. / 7, 10}},
		{9, 20, Rest{1, 1, 0}},
		{0, 4, Rest{1, 0.5, 0}},
		{0, 0, Rest{}},
	} {
		got := s.Rest(tt.from*time.Second, tt.to*time.Second, 10)
		if got.At != tt.want.At || math.Abs(got.For-tt.want.For) > 1e-9 || got.After != tt.want.After {
			t.Errorf("from %d to %d s: %+v, want %+v", tt.from, tt.to, got, tt.want)
		}
	}
	if got := RestText(Rest{11, 0.824, 0}); got != "11 (82 %)" {
		t.Error(got)
	}
}

// TestSettings: each changes what it says, in the dissertation's time.
func TestSettings(t *testing.T) {
	for _, tt := range []struct {
		c     Contender
		speed float64
		want  time.Duration
	}{
		{Contender{Name: "a", Optimizer: "throughput", Setting: Setting{Period: time.Minute}}, 60, time.Second},
		{Contender{Name: "a", Optimizer: "p99-reconciled", Setting: Setting{Period: 5 * time.Second}}, 10, 500 * time.Millisecond},
		{Contender{Name: "a", Optimizer: "mean", Setting: Setting{Lock: 30 * time.Second, Step: 5, Change: 0.2}}, 1, 10 * time.Second},
		{Contender{Name: "a", Optimizer: "knee", Setting: Setting{Period: 5 * time.Second}}, 45, 250 * time.Millisecond},
		{Contender{Name: "a", Optimizer: "knee"}, 45, 500 * time.Millisecond},
	} {
		o, start, err := tt.c.Make(tt.speed)
		if err != nil || start != 1 || o.Period() != tt.want {
			t.Errorf("%+v: begins with %d, %v", tt.c, start, err)
		}
	}
	for _, bad := range []Contender{
		{Name: "vegas"},
		{Name: "knee-reconciled"},
		{Name: "throughput", Optimizer: "vegas"},
		{Name: "throughput", Setting: Setting{Step: -1}},
		{Name: "mean", Setting: Setting{Change: 2}},
	} {
		if o, _, err := bad.Make(1); err == nil {
			t.Errorf("%+v: %v", bad, o)
		}
	}
}
