package admin

// DurationHistograms are the durations that a node measures, for metrics.
type DurationHistograms struct {
	// TimeoutLag is how long after the beginning of their expiry tick this node timed
	// transactions out while it led. It is measured on the node's monotonic clock, by which the
	// tick begins after the timeout has passed; so an election counts as far as it delayed this
	// leader, and the time of the deposed leader does not count.
	TimeoutLag DurationHistogram
	// Entries is how long it took until the log entries that this node proposed were applied.
	Entries DurationHistogram
	// Calls is how long this node's calls to end branches took, whatever their result, by
	// registered participant.
	Calls map[string]DurationHistogram
}

// DurationHistogram is a distribution of durations, for metrics.
type DurationHistogram struct {
	// Count is the number of durations, Sum their sum in seconds.
	Count uint64
	Sum   float64
	// Buckets has, by upper bound in seconds, how many durations were not longer.
	Buckets map[float64]uint64
}
