package adaptivebench

import (
	"context"
	"math/rand/v2"
	"strconv"
)

// candidates is how many numbers a Prime application draws from.
const candidates = 21

// openPrime makes the application whose numbers begin with low.
func openPrime(low int32) func(context.Context, *database) (service, error) {
	return func(context.Context, *database) (service, error) {
		return service{answer: func(context.Context) (string, error) {
			return strconv.FormatBool(prime(low + rand.Int32N(candidates))), nil
		}}, nil
	}
}

// prime is the dissertation's CheckPrime: its purpose is the work, and it
// divides by everything below n, in the 32 bits that the dissertation's int has.
func prime(n int32) bool {
	for i := int32(2); i < n; i++ {
		if n%i == 0 {
			return false
		}
	}
	return true
}
