package costa_test

import (
	"fmt"
	"log"
	"time"

	"github.com/txmgr/txmgr/adaptive"
	"github.com/txmgr/txmgr/adaptive/costa"
)

// service is a service that serves eight requests at once: the window of a pool with that
// limit, when more users ask than it serves.
func service(limit int, length time.Duration) *adaptive.Window {
	const perTask, capacity, clients = 10 * time.Millisecond, 8, 100
	completed := uint32(length / perTask * time.Duration(min(limit, capacity)))
	w := &adaptive.Window{
		End: length, Limit: limit, Arrived: uint64(completed), Completed: uint64(completed),
		BusyTime: time.Duration(limit) * length, BusyMax: limit, QueueLen: clients - limit,
		BoundTime: length, BoundCompleted: uint64(completed),
		Service: new(adaptive.Histogram), Sojourn: new(adaptive.Histogram),
	}
	w.Service.RecordN(perTask*time.Duration(max(limit, capacity))/capacity, completed)
	w.Sojourn.RecordN(length*clients/time.Duration(completed), completed)
	return w
}

// follow shows windows to an optimizer and prints its decisions.
func follow(o adaptive.Optimizer, limit, windows int) {
	for n := range windows {
		d := o.Observe(service(limit, o.Period()))
		if d.Why != "" {
			fmt.Printf("%v: %d -> %d, %s\n", time.Duration(n+1)*o.Period(), limit, d.Limit, d.Why)
		}
		limit = d.Limit
	}
}

func ExampleNewThroughput() {
	o, err := costa.NewThroughput(costa.Throughput{Config: costa.Config{Step: 3}})
	if err != nil {
		log.Fatal(err)
	}
	follow(o, 1, 8)
	// Output:
	// 20s: 1 -> 4, trying 4 after 1
	// 30s: 4 -> 4, keeping 4: throughput has changed by +300.0%
	// 40s: 4 -> 7, trying 7 after 4
	// 50s: 7 -> 7, keeping 7: throughput has changed by +75.0%
	// 1m0s: 7 -> 10, trying 10 after 7
	// 1m10s: 10 -> 10, keeping 10: throughput has changed by +14.3%
	// 1m20s: 10 -> 13, trying 13 after 10
}

func ExampleNewMeanLatency() {
	o, err := costa.NewMeanLatency(costa.MeanLatency{Config: costa.Config{Step: 3}})
	if err != nil {
		log.Fatal(err)
	}
	follow(o, 4, 10)
	// Output:
	// 20s: 4 -> 7, trying 7 after 4
	// 30s: 7 -> 7, keeping 7: mean latency has changed by -42.9%
	// 40s: 7 -> 4, trying 4 after 7
	// 50s: 4 -> 7, back to 7, and no more of that for 6 windows: mean latency has changed by +75.0%
	// 1m0s: 7 -> 10, trying 10 after 7
	// 1m10s: 10 -> 10, keeping 10: mean latency has changed by -12.5%
	// 1m40s: 10 -> 13, trying 13 after 10
}

func ExampleNewP99Latency() {
	o, err := costa.NewP99Latency(costa.P99Latency{Threshold: 0.2, Config: costa.Config{Step: 3, Period: time.Second}})
	if err != nil {
		log.Fatal(err)
	}
	follow(o, 4, 10)
	// Output:
	// 2s: 4 -> 7, trying 7 after 4
	// 3s: 7 -> 7, keeping 7: the 99th percentile of latencies has changed by -42.7%
	// 4s: 7 -> 4, trying 4 after 7
	// 5s: 4 -> 7, back to 7, and no more of that for 6 windows: the 99th percentile of latencies has changed by +74.5%
	// 6s: 7 -> 10, trying 10 after 7
	// 7s: 10 -> 7, back to 7, and no more of that for 6 windows: the 99th percentile of latencies has changed by -12.8%
}
