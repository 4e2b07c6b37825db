package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
	"github.com/txmgr/txmgr/bench/peers/internal/threenodes"
	"github.com/txmgr/txmgr/client"
)

type options struct {
	kills   int
	full    int
	open    int
	away    int
	callers int
	dir     string
	output  string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "failover:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var o options
	flag.IntVar(&o.kills, "kills", 20, "how often the leader is killed with few transactions open")
	flag.IntVar(&o.full, "full", 5, "how often it is killed with many transactions open")
	flag.IntVar(&o.open, "open", 1_000_000, "how many these are")
	flag.IntVar(&o.away, "away", 200_000, "for how many log entries a follower is away")
	flag.IntVar(&o.callers, "callers", 8, "how many callers write meanwhile")
	flag.StringVar(&o.dir, "dir", os.TempDir(), "where the servers keep their logs meanwhile")
	flag.StringVar(&o.output, "o", "table", "table or json")
	flag.Parse()
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("unexpected argument %q; -h lists the flags", flag.Arg(0))
	case o.kills < 1 || o.full < 0 || o.open < 1 || o.away < 0 || o.callers < 1:
		return errors.New("want -kills, -open and -callers of 1 or more, -full and -away of 0 or more")
	case o.output != "table" && o.output != "json":
		return fmt.Errorf("-o %s: want table or json", o.output)
	}
	return failover(ctx, o)
}

func failover(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp(o.dir, "txmgr-failover-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			progressf("the logs of the nodes are left in %s", dir)
			return
		}
		err = os.RemoveAll(dir)
	}()
	r := report{Condition: rig.RecordCondition(dir).Named("go -C bench/peers run ./cmd/failover"), Callers: o.callers}
	neighbours, err := rig.WatchExternalLoad()
	if err != nil {
		return err
	}
	progressf("building txmgr")
	program, err := rig.BuildTxmgr(ctx, dir)
	if err != nil {
		return err
	}
	if err := r.take(ctx, dir, program, o); err != nil {
		return err
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

// take measures everything, and stops what it has started.
func (r *report) take(ctx context.Context, dir, program string, o options) (err error) {
	nodes, err := threenodes.StartTxmgr(ctx, dir, program)
	defer func() { err = errors.Join(err, nodes.Stop()) }()
	if err != nil {
		return err
	}
	c, err := client.Open(client.Config{Address: nodes.URLs(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	t := &cluster{nodes: nodes, client: c, callers: o.callers}
	if r.Few, err = t.series(ctx, fewOpen, o.kills); err != nil {
		return err
	}
	if o.away > 0 {
		if r.CatchUp, err = t.catchUp(ctx, o.away); err != nil {
			return err
		}
	}
	if o.full > 0 {
		r.Many, err = t.series(ctx, o.open, o.full)
	}
	return err
}

func progressf(format string, a ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", a...)
}
