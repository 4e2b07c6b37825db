package rig

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	"github.com/txmgr/txmgr/internal/random"
	"github.com/txmgr/txmgr/txn"
)

// WaitTimeout bounds every wait for something that should not take long. It is long because a
// shared disk can stall; it is no measurement.
const WaitTimeout = 60 * time.Second

// Sleep waits for d, and reports whether ctx has not ended.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// Retry repeats try until it succeeds. Its error is the last one of try; an error that only reports
// the end of ctx does not replace an earlier one.
func Retry(ctx context.Context, try func() error) (last error) {
	for {
		err := try()
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if !Sleep(ctx, 50*time.Millisecond) {
			return last
		}
	}
}

// NewID returns a new transaction id.
func NewID() txn.ID { return random.TransactionID() }

// FreeAddress returns a free address of this machine, with a port that no outgoing connection takes
// while its server is down.
func FreeAddress() (string, error) {
	var last error
	for range 100 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(20000+rand.IntN(12000)))
		l, err := net.Listen("tcp", address)
		if err == nil {
			return address, l.Close()
		}
		last = err
	}
	return "", fmt.Errorf("no free port: %w", last)
}
