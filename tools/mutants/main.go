package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the flags of the command line.
type options struct {
	n, skip  int
	seed     uint64
	time     time.Duration
	short    bool
	run, not string
	at, file string
	memory   int
	floor    time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.n, "n", 20, "mutants to try of each package; those that do not compile do not count")
	flag.IntVar(&o.skip, "skip", 0, "begin behind that many of the seed's mutants")
	flag.Uint64Var(&o.seed, "seed", 1, "order in which mutants are tried")
	flag.DurationVar(&o.time, "time", 10*time.Minute, "end after that time, for all packages together")
	flag.BoolVar(&o.short, "short", false, "run the tests with -short")
	flag.StringVar(&o.run, "run", ".", "run only the tests that match this expression")
	flag.StringVar(&o.not, "not", "", "do not run the tests that match this expression")
	flag.StringVar(&o.at, "at", "", "try every mutant of these lines and no other, as file.go:12,file.go:15")
	flag.StringVar(&o.file, "file", "", "mutate only the files whose names match this expression")
	flag.IntVar(&o.memory, "memory", 8192, "limit of the tests' address space, in MiB")
	flag.DurationVar(&o.floor, "least", 20*time.Second, "a mutant has five times as long as the healthy tests, and at least this")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: mutants [flags] package...")
		flag.PrintDefaults()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, o.time)
	defer cancel()
	for _, pkg := range flag.Args() {
		if err := mutate(ctx, os.Stdout, o, pkg); err != nil {
			fmt.Fprintln(os.Stderr, "mutants:", err)
			os.Exit(1)
		}
	}
}

// mutate tries mutants of one package and reports the survivors.
func mutate(ctx context.Context, out io.Writer, o options, pkg string) error {
	b, err := benchOf(ctx, o, pkg)
	if err != nil {
		return err
	}
	sources, all, err := b.mutations(o)
	if err != nil {
		return err
	}
	if v, text := b.healthy(ctx); v != survived {
		return fmt.Errorf("%s: the tests of the unchanged package: %s\n%s", b.pkg, v, tail(text))
	}
	b.limit = max(o.floor, 5*b.took)
	fmt.Fprintf(out, "%s: %d mutations; the tests pass in %v; a mutant has %v; seed %d\n",
		b.pkg, len(all), b.took.Round(time.Second), b.limit.Round(time.Second), o.seed)
	counts, tried := map[verdict]int{}, 0
	var survivors []string
	for i, m := range all {
		if i < o.skip || o.at == "" && tried == o.n || ctx.Err() != nil {
			continue
		}
		began := time.Now()
		v, text := b.try(ctx, m, sources[m.file])
		if v == untestable && ctx.Err() == nil {
			return fmt.Errorf("%s:%d: %s", m.file, m.line, text)
		}
		counts[v]++
		where := fmt.Sprintf("%s:%d: %s", filepath.Base(m.file), m.line, m.kind)
		fmt.Fprintf(out, "%4d %5.1fs  %-17s %s\n", i, time.Since(began).Seconds(), v, where)
		switch v {
		case survived:
			survivors = append(survivors, where+"\n"+m.diff(sources[m.file]))
			tried++
		case killed, timedOut:
			tried++
		}
	}
	fmt.Fprintf(out, "%s: %d mutants tried: %d killed, %d of them by their time; %d survived; %d more did not compile (seed %d, short %v, run %q, not %q)\n",
		b.pkg, tried, counts[killed]+counts[timedOut], counts[timedOut], counts[survived], counts[notBuilt], o.seed, o.short, o.run, o.not)
	for _, s := range survivors {
		fmt.Fprintf(out, "\nsurvived: %s", s)
	}
	return nil
}

// benchOf reads a package with go list.
func benchOf(ctx context.Context, o options, pkg string) (*bench, error) {
	c := exec.CommandContext(ctx, "go", "list", "-json=ImportPath,Dir,GoFiles", pkg)
	c.Stderr = os.Stderr
	list, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", pkg, err)
	}
	var p struct {
		ImportPath, Dir string
		GoFiles         []string
	}
	d := json.NewDecoder(bytes.NewReader(list))
	if err := d.Decode(&p); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("%s is more than one package: name each by itself", pkg)
	}
	return &bench{pkg: p.ImportPath, dir: p.Dir, files: p.GoFiles, short: o.short, run: o.run, not: o.not, memory: o.memory, limit: 10 * time.Minute}, nil
}

// mutations lists the mutations to try, in the order of the seed.
func (b *bench) mutations(o options) (map[string][]byte, []mutation, error) {
	match, err := regexp.Compile(o.file)
	if err != nil {
		return nil, nil, err
	}
	sources := map[string][]byte{}
	var all []mutation
	for _, name := range b.files {
		if !match.MatchString(name) {
			continue
		}
		path := filepath.Join(b.dir, name)
		src, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, err
		}
		found, err := mutations(path, src)
		if err != nil {
			return nil, nil, err
		}
		sources[path] = src
		all = append(all, found...)
	}
	if o.at != "" {
		lines := strings.Split(o.at, ",")
		return sources, slices.DeleteFunc(all, func(m mutation) bool {
			return !slices.Contains(lines, fmt.Sprintf("%s:%d", filepath.Base(m.file), m.line))
		}), nil
	}
	chance := rand.New(rand.NewPCG(o.seed, 0))
	chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return sources, all, nil
}

// healthy runs the tests of the unchanged package.
func (b *bench) healthy(ctx context.Context) (verdict, string) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return untestable, err.Error()
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return b.build(ctx, dir, "")
}

func tail(text string) string { return text[max(0, len(text)-2000):] }
