package txn

// DurationHistogram is how long something took so far, for metrics.
type DurationHistogram struct {
	// Count is how many durations there were, Sum their sum in seconds.
	Count uint64
	Sum   float64
	// Buckets has, by upper bounds in seconds, how many were not longer.
	Buckets map[float64]uint64
}
