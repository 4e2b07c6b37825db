package adaptivebench

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/txmgr/txmgr/adaptive"
)

// histogramLog is an experiment in HdrHistogram's interval log format, which its
// plotters and log processors read: for each sample the latencies at the server and
// those that users saw, with the tags "server" and "users". Values are nanoseconds,
// the maxima beside them milliseconds.
func histogramLog(t Task, began time.Time, tallies []*tally) (string, error) {
	var text strings.Builder
	w := hdrhistogram.NewHistogramLogWriter(&text)
	base := began.UnixMilli()
	w.SetBaseTime(base)
	errs := []error{
		w.OutputLogFormatVersion(),
		w.OutputComment(fmt.Sprintf("%s under the %s load of %d users with the pool %s", t.App, t.Load, t.Users, strings.TrimSpace(t.Optimizer+" "+t.Contender))),
		w.OutputComment("Users wait for an answer before they ask again: latencies are not corrected for coordinated omission."),
		w.OutputStartTime(base),
		w.OutputLegend(),
	}
	for _, s := range tallies {
		for _, of := range []struct {
			tag  string
			seen *adaptive.Histogram
		}{{"server", &s.server}, {"users", &s.users}} {
			h := of.seen.HDR()
			h.SetTag(of.tag)
			h.SetStartTimeMs(began.Add(s.from).UnixMilli())
			h.SetEndTimeMs(began.Add(s.to).UnixMilli())
			errs = append(errs, w.OutputIntervalHistogram(h))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return "", fmt.Errorf("write the histogram log: %w", err)
	}
	return text.String(), nil
}
