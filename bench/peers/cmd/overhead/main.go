package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type options struct {
	rounds  int
	seconds float64
	workers []int
	only    []string
	hung    bool
	due     int
	lead    time.Duration
	dir     string
	output  string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "overhead:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	o, err := readOptions()
	if err != nil {
		return err
	}
	if o.hung {
		return measureHung(ctx, o)
	}
	return measure(ctx, o)
}

func readOptions() (o options, err error) {
	var workers, only string
	flag.IntVar(&o.rounds, "rounds", 5, "how often everything is measured")
	flag.Float64Var(&o.seconds, "seconds", 2, "how long each time, after a warm-up of a fifth of that")
	flag.StringVar(&workers, "workers", "1,8,32", "how many transactions are under way at once")
	flag.StringVar(&only, "only", "", "measure only these, separated by commas: "+strings.Join(keys(), ", "))
	flag.BoolVar(&o.hung, "hung", false, "measure rollbacks beside a participant that hangs, instead")
	flag.IntVar(&o.due, "due", 10_000, "with -hung: how many transactions expire at once")
	flag.DurationVar(&o.lead, "lead", 20*time.Second, "with -hung: how long before their deadline they begin to be made")
	flag.StringVar(&o.dir, "dir", os.TempDir(), "where databases and coordinators keep their files meanwhile")
	flag.StringVar(&o.output, "o", "table", "table or json")
	flag.Parse()
	switch {
	case flag.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q; -h lists the flags", flag.Arg(0))
	case o.rounds < 1 || o.seconds <= 0:
		return o, errors.New("want -rounds of 1 or more, -seconds above 0")
	case o.due < 1 || o.lead < time.Second:
		return o, errors.New("want -due of 1 or more, -lead of a second or more")
	case o.output != "table" && o.output != "json":
		return o, fmt.Errorf("-o %s: want table or json", o.output)
	}
	for w := range strings.SplitSeq(workers, ",") {
		n, err := strconv.Atoi(w)
		if err != nil || n < 1 || n > maxWorkers {
			return o, fmt.Errorf("-workers %s: want numbers from 1 to %d, separated by commas", workers, maxWorkers)
		}
		o.workers = append(o.workers, n)
	}
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	return o, nil
}

func progressf(format string, a ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", a...)
}
