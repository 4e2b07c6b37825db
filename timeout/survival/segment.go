package survival

// bucket spreads by multiplication: segments that lie a round number of ticks apart must not share
// their bucket.
func (f *overflow) bucket(start Tick) *uint32 {
	const golden = 0x9E3779B97F4A7C15
	return &f.buckets[uint64(start)*golden>>32%uint64(len(f.buckets))]
}

// segment returns the number of the segment that starts at start, or 0.
func (f *overflow) segment(start Tick) uint32 {
	if len(f.heap) == 0 {
		return 0
	}
	i := *f.bucket(start)
	for i != 0 && f.segments[i].start != start {
		i = f.segments[i].link
	}
	return i
}

func (f *overflow) openSegment(start Tick) uint32 {
	i := f.freeSegment
	if i != 0 {
		f.freeSegment = f.segments[i].link
	} else {
		if len(f.segments) == 0 {
			f.segments = append(f.segments, nil)
		}
		f.segments = append(f.segments, new(segment))
		i = uint32(len(f.segments) - 1)
	}
	f.segments[i].start = start
	if len(f.heap) == len(f.buckets) {
		f.rehash()
	}
	f.chain(i)
	f.heap = append(f.heap, segmentStart{start, i})
	f.up(len(f.heap) - 1)
	return i
}

func (f *overflow) chain(i uint32) {
	b := f.bucket(f.segments[i].start)
	f.segments[i].link = *b
	*b = i
}

func (f *overflow) rehash() {
	f.buckets = make([]uint32, max(64, 2*len(f.buckets)))
	for _, e := range f.heap {
		f.chain(e.segment)
	}
}

// closeSegment frees a segment without pages.
func (f *overflow) closeSegment(i uint32) {
	p := f.bucket(f.segments[i].start)
	for *p != i {
		p = &f.segments[*p].link
	}
	*p = f.segments[i].link

	n, last := int(f.segments[i].heap), len(f.heap)-1
	moved := f.heap[last]
	f.heap = f.heap[:last]
	if n < last {
		f.put(n, moved)
		f.up(n)
		f.down(int(f.segments[moved.segment].heap))
	}
	f.segments[i].link = f.freeSegment
	f.freeSegment = i
}

func (f *overflow) put(n int, e segmentStart) {
	f.heap[n] = e
	f.segments[e.segment].heap = uint32(n)
}

func (f *overflow) up(n int) {
	e := f.heap[n]
	for n > 0 {
		parent := (n - 1) / 2
		if f.heap[parent].start < e.start {
			break
		}
		f.put(n, f.heap[parent])
		n = parent
	}
	f.put(n, e)
}

func (f *overflow) down(n int) {
	e := f.heap[n]
	for {
		child := 2*n + 1
		if child >= len(f.heap) {
			break
		}
		if child+1 < len(f.heap) && f.heap[child+1].start < f.heap[child].start {
			child++
		}
		if e.start < f.heap[child].start {
			break
		}
		f.put(n, f.heap[child])
		n = child
	}
	f.put(n, e)
}
