package timeoutbench

import "fmt"

// Names of metrics. Less is better in all of them except the rates.
const (
	Add          = "add"
	Cancel       = "cancel"
	Expire       = "expire"
	LongestTick  = "longest tick"
	LongestStep  = "longest step"
	IdleTick     = "idle tick"
	Bytes        = "memory, fresh"
	BytesChurned = "memory, churned"
	Collection   = "one collection"
	Pause        = "its pause"
)

// Workers are the numbers of goroutines that add and cancel at the same time.
var Workers = []int{1, 2, 8}

// Churn is the name of the processor time for a pair of add and cancel by so many goroutines: all in one contender behind
// one mutex (or its own locks), or each in its own.
func Churn(workers int, shared bool) string { return "pair, " + workersText(workers, shared) }

// Rate is the name of how many of these pairs are done in a microsecond on the wall.
func Rate(workers int, shared bool) string { return "pairs/µs, " + workersText(workers, shared) }

func workersText(workers int, shared bool) string {
	if shared {
		return fmt.Sprintf("%d in one", workers)
	}
	return fmt.Sprintf("%d apart", workers)
}

// Metric is something that is measured.
type Metric struct {
	Name    string `json:"name"`
	Unit    string `json:"unit"`
	Meaning string `json:"meaning"`
}

// Metrics lists them in the order of presentation.
func Metrics() []Metric {
	list := []Metric{
		{Add, "ns", "schedule an entry"},
		{Cancel, "ns", "cancel a pending entry drawn at random"},
		{Expire, "ns", "an entry ends, when all do, tick by tick in batches of 4096; ticks without an entry are included"},
		{LongestTick, "µs", "the longest tick meanwhile"},
		{LongestStep, "µs", "the longest batch meanwhile"},
		{IdleTick, "ns", "a tick at which nothing ends"},
		{Bytes, "B", "heap for an entry, beside its id and handle"},
		{BytesChurned, "B", "the same after each was replaced five times, at random"},
		{Collection, "µs", "CPU time of a full garbage collection because of the entries, least of ten"},
		{Pause, "µs", "how long the program stood still in one, least of ten"},
	}
	for _, shared := range []bool{true, false} {
		where := "each in a structure of its own, without a lock"
		if shared {
			where = "all in one structure, behind one mutex"
		}
		for _, w := range Workers {
			list = append(list, Metric{Churn(w, shared), "ns", fmt.Sprintf("CPU for a pair of add and cancel, goroutines: %d, %s", w, where)})
		}
		for _, w := range Workers {
			list = append(list, Metric{Rate(w, shared), "M/s", fmt.Sprintf("pairs on the wall, goroutines: %d, %s", w, where)})
		}
	}
	return list
}
