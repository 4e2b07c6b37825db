package threenodes

import (
	"context"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
)

// names of the processes of either cluster.
var names = []string{"one", "two", "three"}

func twoPorts() (a, b string, err error) {
	for _, to := range []*string{&a, &b} {
		port, err := rig.FreePort()
		if err != nil {
			return "", "", err
		}
		*to = fmt.Sprintf("127.0.0.1:%d", port)
	}
	return a, b, nil
}

// poll repeats ask until it succeeds, or ctx ends.
func poll[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		v, err := ask()
		if err == nil {
			return v, nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return v, err
		}
	}
}

func cpu(processes []*rig.Process) (sum time.Duration, err error) {
	for _, p := range processes {
		t, err := p.CPU()
		if err != nil {
			return 0, err
		}
		sum += t
	}
	return sum, nil
}

func stop(processes []*rig.Process) (errs []error) {
	for _, p := range processes {
		if p != nil {
			errs = append(errs, p.Stop())
		}
	}
	return errs
}
