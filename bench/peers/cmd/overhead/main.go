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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("interrupted: %w", err)
		}
		fmt.Fprintln(os.Stderr, "overhead:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	o, err := readOptions(os.Args[1:], os.Stderr)
	if err != nil {
		return err
	}
	if o.hung {
		return measureHung(ctx, o)
	}
	return measure(ctx, o)
}

func progressf(format string, a ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", a...)
}
