package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
)

type options struct {
	rounds  int
	seconds float64
	value   int
	dir     string
	output  string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "how often every contender is measured")
	flag.Float64Var(&o.seconds, "seconds", 3, "how long each time, after a warm-up of a fifth of that")
	flag.IntVar(&o.value, "value", 128, "bytes that the first write of a pair carries, at most 128")
	flag.StringVar(&o.dir, "dir", os.TempDir(), "where the servers keep their logs meanwhile")
	flag.StringVar(&o.output, "o", "table", "table or json")
	flag.Parse()
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("unexpected argument %q; -h lists the flags", flag.Arg(0))
	case o.rounds < 1 || o.seconds <= 0 || o.value < 0 || o.value > 128:
		return errors.New("want -rounds of 1 or more, -seconds above 0, -value from 0 to 128")
	case o.output != "table" && o.output != "json":
		return fmt.Errorf("-o %s: want table or json", o.output)
	}
	return compare(ctx, o)
}

func compare(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp(o.dir, "txmgr-compare-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	progressf("building etcd and txmgr")
	programs, err := rig.Build(ctx, dir)
	if err != nil {
		return err
	}
	r := report{Condition: rig.RecordCondition(dir).Named("go -C bench/peers run ./cmd/compare"), Versions: programs.Versions, Value: o.value}

	servers, err := start(ctx, dir, programs)
	defer func() { err = errors.Join(err, servers.stop()) }()
	if err != nil {
		return err
	}
	contenders, err := servers.contenders(ctx, o.value)
	defer func() { err = errors.Join(err, closeAll(contenders)) }()
	if err != nil {
		return err
	}
	if err := r.measure(ctx, contenders, o); err != nil {
		return err
	}
	r.Condition.End()
	return r.print(os.Stdout, o.output)
}

func progressf(format string, a ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", a...)
}
