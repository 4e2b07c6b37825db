package adaptive

import "time"

// Knee configures the optimizer that looks for the smallest limit whose capacity is
// within a few percent of the best. The zero value is usable.
type Knee struct {
	// Period is the length of a window. Defaults to 500 ms.
	Period time.Duration
	// Min and Max are the limits of the limit. Default to 1 and 1024.
	Min, Max int
	// MaxCPU is the use of the processors, from 0 to 1, from which on the limit is not
	// raised, where Window.CPU is known. Defaults to no such veto.
	MaxCPU float64
	// ProbeAfter is how long a limit is left alone before the next smaller or larger
	// one is tried; it doubles with each probe that changes nothing, up to sixteen
	// times as long. Defaults to one minute.
	ProbeAfter time.Duration
}
