package adaptivesim

import (
	"time"

	"github.com/txmgr/txmgr/adaptive"
	"github.com/txmgr/txmgr/adaptive/costa"
)

// Names of contenders that gates compare with each other.
const (
	nameKnee    = "knee"
	nameT       = "T strict"
	nameM       = "M strict"
	name99P     = "99P strict"
	nameKnee1   = "knee from 1"
	nameKnee200 = "knee from 200"
	nameKnee16  = "knee as in recovery"
)

// Contenders are all optimizers of package adaptive: those of the dissertation as they were
// published, and as they were meant, begin with 1, as theirs did; the knee with the number
// of processors, and, to see what that is worth, with 1 and with far too many; and as
// package recovery has it, with shorter windows.
func Contenders() []Contender {
	strict := costa.Config{Strict: true}
	knee := func() (adaptive.Optimizer, error) { return adaptive.NewKnee(adaptive.Knee{Max: Max}) }
	return []Contender{
		{nameT, func() (adaptive.Optimizer, error) {
			return costa.NewThroughput(costa.Throughput{Config: strict})
		}, 1},
		{nameM, func() (adaptive.Optimizer, error) {
			return costa.NewMeanLatency(costa.MeanLatency{Config: strict})
		}, 1},
		{name99P, func() (adaptive.Optimizer, error) {
			return costa.NewP99Latency(costa.P99Latency{Config: strict})
		}, 1},
		{"T", func() (adaptive.Optimizer, error) { return costa.NewThroughput(costa.Throughput{}) }, 1},
		{"M", func() (adaptive.Optimizer, error) { return costa.NewMeanLatency(costa.MeanLatency{}) }, 1},
		{"99P", func() (adaptive.Optimizer, error) { return costa.NewP99Latency(costa.P99Latency{}) }, 1},
		{nameKnee1, knee, 1},
		{nameKnee200, knee, 200},
		{nameKnee16, func() (adaptive.Optimizer, error) {
			return adaptive.NewKnee(adaptive.Knee{Max: 256, Period: 250 * time.Millisecond})
		}, 16},
		{nameKnee, knee, cores},
	}
}
