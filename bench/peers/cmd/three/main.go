package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/embedded"
	"github.com/txmgr/txmgr/bench/peers/internal/rig"
	"github.com/txmgr/txmgr/bench/peers/internal/threenodes"
)

type options struct {
	rounds  int
	seconds float64
	value   int
	only    []string
	profile string
	dir     string
	output  string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "three:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var o options
	inside := flag.String("inside", "", "be one of the nodes that are measured from within, in this directory, and take orders from standard input; for this program itself")
	flag.IntVar(&o.rounds, "rounds", 5, "how often every contender is measured")
	flag.Float64Var(&o.seconds, "seconds", 3, "how long each time, after a warm-up of a fifth of that")
	flag.IntVar(&o.value, "value", 128, "bytes that the first write of a pair carries, at most 128")
	only := flag.String("only", "", "words, separated by commas: leave out whose name has none of them; for example etcd,JSON or within")
	flag.StringVar(&o.profile, "profile", "", "the beginning of names of files for processor profiles of the nodes that are measured from within")
	flag.StringVar(&o.dir, "dir", os.TempDir(), "where the servers keep their logs meanwhile")
	flag.StringVar(&o.output, "o", "table", "table or json")
	flag.Parse()
	o.only = strings.Split(*only, ",")
	switch {
	case *inside != "":
		return embedded.Work(os.Stdin, os.Stdout, *inside)
	case flag.NArg() > 0:
		return fmt.Errorf("unexpected argument %q; -h lists the flags", flag.Arg(0))
	case o.rounds < 1 || o.seconds <= 0 || o.value < 0 || o.value > 128:
		return errors.New("want -rounds of 1 or more, -seconds above 0, -value from 0 to 128")
	case len(contenders(o.only)) == 0:
		return fmt.Errorf("-only %s: unknown contender: etcd, JSON, unary, stream, within", *only)
	case o.output != "table" && o.output != "json":
		return fmt.Errorf("-o %s: want table or json", o.output)
	}
	return three(ctx, o)
}

func three(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp(o.dir, "txmgr-three-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := report{Condition: rig.RecordCondition(dir).Named("go -C bench/peers run ./cmd/three"), Value: o.value}
	if r.Flush, err = rig.Flushes(dir, 500); err != nil {
		return err
	}
	neighbours, err := rig.WatchExternalLoad()
	if err != nil {
		return err
	}
	if err := r.take(ctx, dir, o); err != nil {
		return err
	}
	r.Condition.End()
	share, err := neighbours.Share()
	if err != nil {
		return err
	}
	r.Condition.Share = &share
	return r.print(os.Stdout, o.output)
}

// take measures everything, in turns, and stops what it has started.
func (r *report) take(ctx context.Context, dir string, o options) (err error) {
	s := new(contestants)
	defer func() { err = errors.Join(err, s.stop()) }()
	all := contenders(o.only)
	if asks(all, etcdWay) {
		progressf("building etcd")
		program, version, err := rig.BuildEtcd(ctx, dir)
		if err != nil {
			return err
		}
		r.Etcd = version
		if s.etcd, err = threenodes.StartEtcd(ctx, dir, program); err != nil {
			return err
		}
	}
	if asks(all, jsonWay, unaryWay, streamWay) {
		progressf("building txmgr")
		program, err := rig.BuildTxmgr(ctx, dir)
		if err != nil {
			return err
		}
		if s.txmgr, err = threenodes.StartTxmgr(ctx, dir, program); err != nil {
			return err
		}
	}
	if asks(all, engineWay) {
		if s.inprocess, err = embedded.Start(ctx, dir, "-inside"); err != nil {
			return err
		}
	}
	return r.measure(ctx, s, o)
}

// contestants are the clusters that are measured; those that are not measured are nil.
type contestants struct {
	etcd      *threenodes.Etcd
	txmgr     *threenodes.Txmgr
	inprocess *embedded.Cluster
}

func (s *contestants) stop() error {
	var errs []error
	if s.etcd != nil {
		errs = append(errs, s.etcd.Stop())
	}
	if s.txmgr != nil {
		errs = append(errs, s.txmgr.Stop())
	}
	if s.inprocess != nil {
		errs = append(errs, s.inprocess.Stop())
	}
	return errors.Join(errs...)
}

func progressf(format string, a ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", a...)
}
