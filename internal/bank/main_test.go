package bank

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

var (
	flagTime = flag.Duration("bank.time", 0, "how long the storm lasts (default $TXMGR_BANK_TIME, or 1m)")
	flagSeed = flag.Uint64("bank.seed", 0, "the seed of the storm (default a new one)")
	flagLogs = flag.String("bank.logs", "", "a directory for what the processes say")
)

// The roles in which this program starts itself.
const (
	roleVariable   = "TXMGR_BANK_ROLE"
	configVariable = "TXMGR_BANK_CONFIG"
	roleClient     = "teller"
	roleVault      = "vault"
)

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		os.Exit(m.Run())
	case roleClient:
		os.Exit(inRole(role, runTransferClient))
	case roleVault:
		os.Exit(inRole(role, runVaultService))
	default:
		fmt.Fprintf(os.Stderr, "%s is %q: want %s or %s\n", roleVariable, role, roleClient, roleVault)
		os.Exit(2)
	}
}

func inRole(role string, run func(config string) error) int {
	if err := run(os.Getenv(configVariable)); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
		return 1
	}
	return 0
}

// chaosTime is how long faults are injected.
func chaosTime(t *testing.T) time.Duration {
	d, err := time.ParseDuration(cmp.Or(os.Getenv("TXMGR_BANK_TIME"), "1m"))
	if err != nil {
		t.Fatalf("TXMGR_BANK_TIME: %v", err)
	}
	return cmp.Or(*flagTime, d)
}

// newRand returns a generator that is the same for the same seed and purpose.
func newRand(seed uint64, purpose ...uint64) *rand.Rand {
	stream := uint64(1)
	for _, p := range purpose {
		stream = stream*1_000_003 + p
	}
	return rand.New(rand.NewPCG(seed, stream))
}

// between draws a duration.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}
