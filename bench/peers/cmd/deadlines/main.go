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

	"github.com/txmgr/txmgr/bench/peers/internal/embedded"
	"github.com/txmgr/txmgr/bench/peers/internal/rig"
)

type options struct {
	due    []int
	leases int
	rounds int
	dir    string
	output string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "deadlines:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var o options
	inside := flag.String("inside", "", "be one of the nodes, in this directory, and take orders from standard input; for this program itself")
	due := flag.String("due", "20000,100000,1000000", "how many transactions end at one tick, one number after the other")
	flag.IntVar(&o.leases, "leases", 20_000, "how many leases of etcd end at once; 0 leaves etcd out")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each is measured; a million and more, and the leases, once")
	flag.StringVar(&o.dir, "dir", os.TempDir(), "where the servers keep their logs meanwhile")
	flag.StringVar(&o.output, "o", "table", "table or json")
	flag.Parse()
	if *inside != "" {
		return embedded.Work(os.Stdin, os.Stdout, *inside)
	}
	for s := range strings.SplitSeq(*due, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 100 {
			return fmt.Errorf("-due %s: want numbers of 100 or more, separated by commas", *due)
		}
		o.due = append(o.due, n)
	}
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("unexpected argument %q; -h lists the flags", flag.Arg(0))
	case o.rounds < 1 || o.leases < 0:
		return errors.New("want -rounds of 1 or more, -leases of 0 or more")
	case o.output != "table" && o.output != "json":
		return fmt.Errorf("-o %s: want table or json", o.output)
	}
	return deadlines(ctx, o)
}

func deadlines(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp(o.dir, "txmgr-deadlines-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := report{Condition: rig.RecordCondition(dir).Named("go -C bench/peers run ./cmd/deadlines")}
	neighbours, err := rig.WatchExternalLoad()
	if err != nil {
		return err
	}
	if err := r.groups(ctx, dir, o); err != nil {
		return err
	}
	if o.leases > 0 {
		if err := r.leases(ctx, dir, o.leases); err != nil {
			return err
		}
	}
	r.checkGoals()
	r.Condition.End()
	share, err := neighbours.Share()
	if err != nil {
		return err
	}
	r.Condition.Share = &share
	return r.print(os.Stdout, o.output)
}

func progressf(format string, a ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", a...)
}
