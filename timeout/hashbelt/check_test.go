package hashbelt

import (
	"fmt"

	"github.com/txmgr/txmgr/timeout"
)

// check verifies the invariants of a ring between two calls: 3, 5 and 7 of the package doc.
func (r *Ring[K, V]) check() error {
	count, ends := 0, map[K]timeout.Tick{}
	for i, s := range r.slots {
		c := s.container
		if marked := r.occupied[i/64]>>(i%64)&1 == 1; marked != (c != nil) {
			return fmt.Errorf("slot %d: marked %v, container %v", i, marked, c)
		}
		if c == nil {
			continue
		}
		if c.Len() == 0 || c.Len() != s.count {
			return fmt.Errorf("slot %d holds a container of %d objects and counts %d", i, c.Len(), s.count)
		}
		end, ok := r.endOf(i)
		if !ok {
			return fmt.Errorf("slot %d holds %d objects that end never", i, c.Len())
		}
		n := 0
		for key, value := range c.All() {
			n++
			if was, twice := ends[key]; twice {
				return fmt.Errorf("%v ends at %d and at %d", key, was, end)
			}
			ends[key] = end
			led, place, ok := r.index.find(key, r.now)
			if !ok || led != end {
				return fmt.Errorf("%v ends at %d, the index says %d, %v", key, end, led, ok)
			}
			if got, ok := c.Get(key, place); !ok || any(got) != any(value) {
				return fmt.Errorf("%v is %v; in its place %d is %v, %v", key, value, place, got, ok)
			}
		}
		if n != c.Len() {
			return fmt.Errorf("slot %d: %d objects, Len %d", i, n, c.Len())
		}
		count += n
	}
	if count != r.count {
		return fmt.Errorf("%d objects, count %d", count, r.count)
	}
	return nil
}

// endOf returns the end of the container in a slot.
func (r *Ring[K, V]) endOf(slot int) (timeout.Tick, bool) {
	for end := r.now + 1; end > r.now && end <= r.Front(); end++ {
		if r.slotOf(end) == slot {
			return end, true
		}
	}
	return 0, false
}
