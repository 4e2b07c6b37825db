package recovery

import "time"

// timers orders items by the time at which they are to be looked at again. An
// item that was dealt with in the meantime is not taken out: whoever pops it
// finds that its time is not the one it was parked for. A binary heap.
type timers struct{ heap []alarm }

type alarm struct {
	at time.Duration
	it item
}

func (t *timers) push(at time.Duration, it item) {
	h := append(t.heap, alarm{at, it})
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if h[up].at <= h[i].at {
			break
		}
		h[up], h[i] = h[i], h[up]
		i = up
	}
	t.heap = h
}

// due takes one item whose time has come.
func (t *timers) due(now time.Duration) (alarm, bool) {
	if len(t.heap) == 0 || t.heap[0].at > now {
		return alarm{}, false
	}
	h := t.heap
	top, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			break
		}
		if down+1 < last && h[down+1].at < h[down].at {
			down++
		}
		if h[i].at <= h[down].at {
			break
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
	t.heap = h
	if last == 0 {
		t.heap = nil // a storm is over: give its memory back
	}
	return top, true
}

// next is when the first item is due; false when there is none.
func (t *timers) next() (time.Duration, bool) {
	if len(t.heap) == 0 {
		return 0, false
	}
	return t.heap[0].at, true
}
