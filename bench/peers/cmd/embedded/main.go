package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
)

type options struct {
	open    int
	due     int
	rounds  int
	seconds float64
	idle    time.Duration
	lead    time.Duration
	dir     string
	output  string
	worker  bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "embedded:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var o options
	flag.IntVar(&o.open, "open", 1_000_000, "how many transactions are open in the full node")
	flag.IntVar(&o.due, "due", 100_000, "how many transactions end in one group")
	flag.IntVar(&o.rounds, "rounds", 5, "how often both nodes' throughput is measured")
	flag.Float64Var(&o.seconds, "seconds", 3, "how long each time, after a warm-up of a fifth of that")
	flag.DurationVar(&o.idle, "idle", 35*time.Second, "how long the full node idles")
	flag.DurationVar(&o.lead, "lead", 20*time.Second, "how long before their deadline the group's transactions begin to begin")
	flag.StringVar(&o.dir, "dir", os.TempDir(), "where the nodes keep their logs meanwhile")
	flag.StringVar(&o.output, "o", "table", "table or json")
	flag.BoolVar(&o.worker, "worker", false, "be one of the two nodes, and take orders from standard input; for this program itself")
	flag.Parse()
	switch {
	case o.worker:
		return work(os.Stdin, os.Stdout, o.dir)
	case flag.NArg() > 0:
		return fmt.Errorf("unexpected argument %q; -h lists the flags", flag.Arg(0))
	case o.open < 1000 || o.due < 1 || o.rounds < 1 || o.seconds <= 0 || o.idle <= 0:
		return errors.New("want -open of 1000 or more, -due and -rounds of 1 or more, -seconds and -idle above 0")
	case o.output != "table" && o.output != "json":
		return fmt.Errorf("-o %s: want table or json", o.output)
	}
	return measure(ctx, o)
}

func measure(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp(o.dir, "txmgr-embedded-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := report{Condition: rig.RecordCondition(dir).Named("go -C bench/peers run ./cmd/embedded")}
	empty, err := rig.StartWorker[request, response](ctx, "empty", "-worker", "-dir", filepath.Join(dir, "empty"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, empty.Stop()) }()
	full, err := rig.StartWorker[request, response](ctx, "full", "-worker", "-dir", filepath.Join(dir, "full"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, full.Stop()) }()
	if err := r.take(o, empty, full); err != nil {
		return err
	}
	r.Condition.End()
	return r.print(os.Stdout, o.output)
}

func progressf(format string, a ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", a...)
}
