package timeouttest

import (
	"fmt"
	"slices"

	"github.com/txmgr/txmgr/timeout"
)

// Subject is a structure under test.
type Subject struct {
	Name string

	// New returns an empty structure at the tick now. See [Boxed] for one with handles of another type.
	New func(now timeout.Tick) timeout.Structure[any]

	// Horizon is how far ahead of Now an end may lie, 0 for any distance. A hashbelt has as many ticks as containers.
	Horizon timeout.Tick
}

// Boxed is a structure with the type of its handles taken away, so that different ones can stand side by side. A handle of
// another type is not one of its own: Cancel reports false.
func Boxed[H any](s timeout.Structure[H]) timeout.Structure[any] { return boxed[H]{s} }

type boxed[H any] struct{ timeout.Structure[H] }

func (b boxed[H]) Add(id uint64, end timeout.Tick) any { return b.Structure.Add(id, end) }

func (b boxed[H]) Cancel(id uint64, h any) bool {
	own, ok := h.(H)
	return ok && b.Structure.Cancel(id, own)
}

// endAfter bounds a distance from now to what the subject and a tick can represent.
func (s Subject) endAfter(now, distance timeout.Tick) timeout.Tick {
	if s.Horizon > 0 {
		distance = min(distance, s.Horizon)
	}
	return now + min(distance, ^timeout.Tick(0)-now)
}

// drain takes everything that is due, a few at a time, sorted: structures may differ in the order
// within one end.
func drain(s timeout.Structure[any], batch int) (ids []uint64, err error) {
	buf := make([]uint64, batch)
	for {
		n := s.Expire(buf)
		if n < 0 || n > len(buf) {
			return nil, fmt.Errorf("Expire answered %d for a buffer of %d", n, len(buf))
		}
		if n == 0 {
			slices.Sort(ids)
			return ids, nil
		}
		ids = append(ids, buf[:n]...)
	}
}
