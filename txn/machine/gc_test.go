package machine

import "runtime/metrics"

// gcCPU is the processor time, in seconds, that the collector has taken.
func gcCPU() float64 {
	s := []metrics.Sample{{Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/assist:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/idle:cpu-seconds"}, {Name: "/cpu/classes/gc/pause:cpu-seconds"}}
	metrics.Read(s)
	sum := 0.0
	for _, x := range s {
		sum += x.Value.Float64()
	}
	return sum
}
