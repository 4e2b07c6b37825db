package rig

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies counts durations in an HdrHistogram: from a nanosecond to an hour, in buckets of less
// than 0.1 % of their value. It takes 270 KB however many it counts, and those of several rounds or
// processes can be merged. The zero value is empty. It is not safe for concurrent use.
type Latencies struct {
	hdr *hdrhistogram.Histogram // of nanoseconds; nil until something is recorded
}

const longest = time.Hour

// Record adds a duration: a negative one as 0, one above an hour as an hour.
func (l *Latencies) Record(d time.Duration) {
	// The value is within the range, and no run makes 2^63 calls: it cannot fail.
	_ = l.buckets().RecordValue(int64(min(max(d, 0), longest)))
}

func (l *Latencies) buckets() *hdrhistogram.Histogram {
	if l.hdr == nil {
		l.hdr = hdrhistogram.New(1, int64(longest), 3)
	}
	return l.hdr
}

// Merge adds the durations of others.
func (l *Latencies) Merge(others ...*Latencies) {
	for _, o := range others {
		if o.Count() > 0 {
			l.buckets().Merge(o.hdr)
		}
	}
}

// Merged is the sum of all, such as the rounds of one contender.
func Merged(all []*Latencies) *Latencies {
	l := new(Latencies)
	l.Merge(all...)
	return l
}

// Count is the number of durations.
func (l *Latencies) Count() int64 {
	if l == nil || l.hdr == nil {
		return 0
	}
	return l.hdr.TotalCount()
}

// Percentile is the duration that p of 100 do not exceed: the upper bound of its bucket. It is 0 if
// nothing was recorded.
func (l *Latencies) Percentile(p float64) time.Duration {
	if l.Count() == 0 {
		return 0
	}
	return time.Duration(l.hdr.ValueAtPercentile(p))
}

// Max is the upper bound of the bucket of the longest duration.
func (l *Latencies) Max() time.Duration { return l.Percentile(100) }

// LatencyColumns are the headings of [Latencies.Columns], for a table of package tabwriter.
const LatencyColumns = "p50 ms\tp90 ms\tp99 ms\tp99.9 ms\tmax ms"

// Columns are the quantiles that every report shows.
func (l *Latencies) Columns() string {
	return fmt.Sprintf("%.2f\t%.2f\t%.2f\t%.2f\t%.2f", ms(l.Percentile(50)), ms(l.Percentile(90)), ms(l.Percentile(99)), ms(l.Percentile(99.9)), ms(l.Max()))
}

// String is the same on one line.
func (l *Latencies) String() string {
	return fmt.Sprintf("p50 %.2f, p90 %.2f, p99 %.2f, p99.9 %.2f, max %.2f ms", ms(l.Percentile(50)), ms(l.Percentile(90)), ms(l.Percentile(99)),
		ms(l.Percentile(99.9)), ms(l.Max()))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// encoded is the form in JSON: the quantiles for readers, and the histogram in HdrHistogram's
// compressed format (V2, base64), which its tools read, for merging.
type encoded struct {
	Count     int64         `json:"count"`
	P50       time.Duration `json:"p50_ns"`
	P90       time.Duration `json:"p90_ns"`
	P99       time.Duration `json:"p99_ns"`
	P999      time.Duration `json:"p99_9_ns"`
	Max       time.Duration `json:"max_ns"`
	Histogram string        `json:"hdrhistogram"`
}

// MarshalJSON implements [json.Marshaler].
func (l *Latencies) MarshalJSON() ([]byte, error) {
	histogram, err := l.buckets().Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, fmt.Errorf("encode latencies: %w", err)
	}
	return json.Marshal(encoded{l.Count(), l.Percentile(50), l.Percentile(90), l.Percentile(99), l.Percentile(99.9), l.Max(), string(histogram)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (l *Latencies) UnmarshalJSON(data []byte) error {
	var e encoded
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	hdr, err := hdrhistogram.Decode([]byte(e.Histogram))
	if err != nil {
		return fmt.Errorf("decode latencies: %w", err)
	}
	own := new(Latencies).buckets()
	if dropped := own.Merge(hdr); dropped > 0 {
		return errors.New("decode latencies: some are above an hour")
	}
	l.hdr = own
	return nil
}
