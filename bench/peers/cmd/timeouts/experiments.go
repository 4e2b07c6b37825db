package main

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/txmgr/txmgr/internal/timeoutbench"
	"github.com/txmgr/txmgr/timeout/hashbelt"
)

// The two times that are measured when a container is dropped.
const (
	wholeCall = "rotation, the whole call"
	underLock = "rotation, under the lock"
)

// rotate measures the nanoseconds in which a container with so many objects is dropped from a
// hashbelt in concurrent use, and the time for which other users wait: a belt rotates its ring
// under its lock. Each is the median of several, without the first.
func rotate(objects int) (timeoutbench.Figures, error) {
	belt, err := hashbelt.New(hashbelt.Config[uint64, uint64]{Containers: 1})
	if err != nil {
		return nil, err
	}
	ring, err := hashbelt.NewRing[uint64, uint64](1, 0, nil)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex // the lock of the belt is not accessible
	call, err := measureRotation(objects, belt.Put, belt.Get, belt.Rotate)
	if err != nil {
		return nil, err
	}
	put := func(key, value uint64) error { return ring.Add(key, value, ring.Front()) }
	get := func(key uint64) (value uint64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		value, _, ok = ring.Get(key)
		return value, ok
	}
	var gone hashbelt.Container[uint64, uint64]
	locked, err := measureRotation(objects, put, get, func() int {
		mu.Lock()
		gone = ring.Rotate()
		mu.Unlock()
		return objects
	})
	if err == nil && gone.Len() != objects {
		err = fmt.Errorf("%d of %d objects fell off", gone.Len(), objects)
	}
	return timeoutbench.Figures{wholeCall: call, underLock: locked}, err
}

func measureRotation(objects int, put func(key, value uint64) error, get func(uint64) (uint64, bool), turn func() int) (float64, error) {
	var times []float64
	for range 6 {
		for n := range uint64(objects) {
			if err := put(n, n); err != nil {
				return 0, err
			}
		}
		runtime.GC()
		for n := range uint64(1000) { // concurrent use
			if _, ok := get(n); !ok {
				return 0, fmt.Errorf("object %d was lost", n)
			}
		}
		start := time.Now()
		fell := turn()
		times = append(times, float64(time.Since(start)))
		if fell != objects {
			return 0, fmt.Errorf("%d of %d objects fell off", fell, objects)
		}
	}
	return timeoutbench.Median(times[1:]), nil
}
