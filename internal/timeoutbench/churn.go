package timeoutbench

import (
	"fmt"
	"sync"
	"time"
)

// measureChurn measures goroutines that add and cancel all the time, all in one contender or each in its own.
func measureChurn[H any](fresh func(bool) Timers[H], l Load, size int, found Figures) error {
	for _, workers := range Workers {
		for _, shared := range []bool{true, false} {
			cpu, wall, err := churnParallel(fresh, l, size, workers, shared)
			if err != nil {
				return err
			}
			found[Churn(workers, shared)], found[Rate(workers, shared)] = cpu, wall
		}
	}
	return nil
}

// churnParallel returns the nanoseconds of processors for each pair of add and cancel, and the pairs in a microsecond on the wall.
func churnParallel[H any](fresh func(bool) Timers[H], l Load, size, workers int, shared bool) (cpu, rate float64, err error) {
	const round = 50
	pairs := min(20*size, 400_000) / workers / round * round
	pools := make([]*pendingSet[H], workers)
	one := fresh(shared)
	for w := range pools {
		if w > 0 && !shared {
			one = fresh(false)
		}
		pools[w] = newPendingSet(one, l, size/workers, round, w, workers)
	}
	defer func() {
		for w, p := range pools {
			if w == 0 || !shared {
				stop(p.timers)
			}
		}
	}()
	// They fill it in turns, so that the entries of all goroutines are interleaved in memory.
	for n := 0; n < size/workers; n += round {
		for _, p := range pools {
			p.fill(min(n+round, size/workers))
		}
	}
	flushAll(pools)

	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	for _, p := range pools {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-begin
			p.churn(pairs)
		})
	}
	ready.Wait()
	start, burned := time.Now(), ProcessCPU()
	close(begin)
	done.Wait()
	for _, p := range pools {
		p.flush()
	}
	took := time.Since(start)
	burned = ProcessCPU() - burned
	for _, p := range pools {
		if err := p.checkLost(); err != nil {
			return 0, 0, fmt.Errorf("%d goroutines: %w", workers, err)
		}
	}
	total := float64(pairs * workers)
	return float64(burned) / total, total / microseconds(took), nil
}
