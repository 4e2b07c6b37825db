package soak

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

var (
	flagTime    = flag.Duration("soak.time", 0, "how long the load lasts (default $TXMGR_SOAK_TIME, or 3m)")
	flagProgram = flag.String("soak.program", "", "the txmgr to try (default it is built)")
	flagLogs    = flag.String("soak.logs", "", "a directory for what the nodes say (default a temporary one)")
)

func soakTime(t *testing.T) time.Duration {
	d, err := time.ParseDuration(cmp.Or(os.Getenv("TXMGR_SOAK_TIME"), "3m"))
	if err != nil {
		t.Fatalf("TXMGR_SOAK_TIME: %v", err)
	}
	return cmp.Or(*flagTime, d)
}

// between draws a duration.
func between(least, most time.Duration) time.Duration { return least + rand.N(most-least+1) }

// oneOf draws one of several.
func oneOf[T any](all ...T) T { return all[rand.IntN(len(all))] }
