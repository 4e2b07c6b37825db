package admin

// DurationHistogram is a distribution of durations, for metrics.
type DurationHistogram struct {
	// Count is the number of durations, Sum their sum in seconds.
	Count uint64
	Sum   float64
	// Buckets has, by upper bound in seconds, how many durations were not longer.
	Buckets map[float64]uint64
}
