// Package cell writes values of the API as the text of table cells: numbers, times, durations, and
// the states of transactions. A value that is not known is an empty cell, which
// [github.com/txmgr/txmgr/cmd/txmgr/internal/output] prints as a dash.
package cell

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

// Int writes an integer.
func Int[T ~int | ~int64 | ~uint64](n T) string { return strconv.FormatInt(int64(n), 10) }

// Age formats the time since t; empty if t is not known.
func Age(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return output.Since(time.Since(t)) + " ago"
}

// Time writes a point in time to the second, in UTC.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// Clock writes the time of the day to the millisecond, in UTC.
func Clock(t time.Time) string { return t.UTC().Format("15:04:05.000Z") }

// Duration writes a duration for people; empty for zero.
func Duration(d txn.Duration) string {
	if d == 0 {
		return ""
	}
	return output.Since(time.Duration(d))
}

// ShortDuration is [Duration] for durations that may be below a millisecond.
func ShortDuration(d txn.Duration) string {
	if 0 < d && d < txn.Duration(time.Millisecond) {
		return time.Duration(d).Round(time.Microsecond).String()
	}
	return Duration(d)
}

// Labels writes labels, or settings, in the order of their names.
func Labels(labels map[string]string) string {
	var out []string
	for k, v := range labels {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// Branches is all branches in one cell: "bank prepared, stock enlisted".
func Branches(t txn.Info) string {
	var parts []string
	for _, b := range t.Branches {
		parts = append(parts, b.Participant+" "+b.State.String())
	}
	return strings.Join(parts, ", ")
}

// State is the state with the heuristic outcome, if there is one.
func State(s txn.State, h txn.Heuristic) string {
	if h == 0 {
		return s.String()
	}
	return s.String() + " (heuristic: " + h.String() + ")"
}
