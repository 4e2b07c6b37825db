package adaptivebench

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/txmgr/txmgr/internal/svgchart"
)

// milliseconds is a latency in the unit of the axes.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Number writes a number with about three digits.
func Number(v float64) string {
	switch {
	case v >= 99.5:
		return svgchart.Grouped(int64(math.Round(v)))
	case v >= 9.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v == 0:
		return "0"
	case v >= 0.01:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// clock formats a time of the dissertation as its pictures do.
func clock(d time.Duration) string {
	d = d.Round(time.Second)
	if d >= time.Hour {
		return fmt.Sprintf("%d:%02d:%02d", d/time.Hour, d/time.Minute%60, d/time.Second%60)
	}
	return fmt.Sprintf("%02d:%02d", d/time.Minute, d/time.Second%60)
}
