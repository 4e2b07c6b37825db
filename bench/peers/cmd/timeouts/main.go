package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
	"github.com/txmgr/txmgr/internal/timeoutbench"
)

type options struct {
	rounds  int
	sizes   []int
	loads   []string
	only    []string
	output  string
	picture string
}

// child is the measurement of a process that this program has started.
type child struct {
	contender, load, queue string
	size                   int
	rotation               bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "timeouts:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var o options
	var c child
	flag.IntVar(&o.rounds, "rounds", 5, "how often everything is measured")
	sizes := flag.String("sizes", "10k,100k,1M", "numbers of pending entries, separated by commas")
	loads := flag.String("loads", "uniform,same", "timeouts: uniform, same, or both")
	only := flag.String("only", "", "contenders, separated by commas; leaves out the experiments unless sleepers or rotation are named too")
	flag.StringVar(&o.output, "o", "table", "table or json")
	flag.StringVar(&o.picture, "svg", "", "a file for a picture")
	flag.StringVar(&c.contender, "one", "", "measure this contender once and print JSON; for this program itself, as are -size, -load, -queue and -rotate")
	flag.IntVar(&c.size, "size", 0, "pending entries of -one and -rotate")
	flag.StringVar(&c.load, "load", "", "timeouts of -one")
	flag.StringVar(&c.queue, "queue", "", "let sleepers sleep in this queue")
	flag.BoolVar(&c.rotation, "rotate", false, "let a container fall off")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; -h lists the flags", flag.Arg(0))
	}
	if c.contender != "" || c.queue != "" || c.rotation {
		return c.work()
	}
	var err error
	if o.sizes, err = timeoutbench.ParseSizes(*sizes); err != nil {
		return fmt.Errorf("-sizes: %w", err)
	}
	o.loads = strings.Split(*loads, ",")
	for _, name := range o.loads {
		if _, err := timeoutbench.LoadOf(name); err != nil {
			return fmt.Errorf("-loads: %w", err)
		}
	}
	o.only = append(names(), sleepersName, rotationName)
	if *only != "" {
		asked := strings.Split(*only, ",")
		for _, name := range asked {
			if !slices.Contains(o.only, name) {
				return fmt.Errorf("-only: there is no %q: want some of %s", name, strings.Join(o.only, ", "))
			}
		}
		o.only = slices.DeleteFunc(o.only, func(name string) bool { return !slices.Contains(asked, name) })
	}
	switch {
	case o.rounds < 1 || o.rounds > timeoutbench.MaxRounds:
		return fmt.Errorf("-rounds %d: want 1 to %d", o.rounds, timeoutbench.MaxRounds)
	case o.output != "table" && o.output != "json":
		return fmt.Errorf("-o %s: want table or json", o.output)
	}
	if err := timeoutbench.CheckMemory(slices.Max(o.sizes)); err != nil {
		return err
	}
	return compare(ctx, o)
}

// work runs the measurement of a child.
func (c child) work() error {
	var found timeoutbench.Figures
	var err error
	switch {
	case c.queue != "":
		found, err = timeoutbench.Sleep(c.queue)
	case c.rotation:
		found, err = rotate(c.size)
	default:
		found, err = timeoutbench.Measure(contenders(c.size), timeoutbench.Task{Contender: c.contender, Size: c.size, Load: c.load})
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}

func compare(ctx context.Context, o options) error {
	r := report{Condition: rig.RecordCondition(os.TempDir()).Named("go -C bench/peers run ./cmd/timeouts")}
	neighbours, err := rig.WatchExternalLoad()
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if err := r.experiments(ctx, program, o); err != nil {
		return err
	}
	config := timeoutbench.Config{
		Contenders: slices.DeleteFunc(names(), func(name string) bool { return !slices.Contains(o.only, name) }),
		Sizes:      o.sizes, Loads: o.loads, Rounds: o.rounds, Program: program,
		Args: func(t timeoutbench.Task) []string {
			return []string{"-one", t.Contender, "-size", strconv.Itoa(t.Size), "-load", t.Load}
		},
		Step: func(round int, t timeoutbench.Task) { progressf("round %d of %d: %v", round, o.rounds, t) },
	}
	if len(config.Contenders) > 0 {
		if r.Report, err = timeoutbench.Run(ctx, config); err != nil {
			return err
		}
	}
	r.Condition.End()
	share, err := neighbours.Share()
	if err != nil {
		return err
	}
	r.Condition.Share = &share
	r.checkGoals()
	if o.picture != "" {
		if len(config.Contenders) == 0 {
			return errors.New("-svg: no contender was measured that could be drawn")
		}
		if err := os.WriteFile(o.picture, []byte(r.Picture("null", "survival+mutex", lockedHeap, lockedWheel)), 0o644); err != nil {
			return err
		}
	}
	return r.print(os.Stdout, o.output)
}

func progressf(format string, a ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", a...)
}
