package survival

// bucket spreads by multiplication: books that lie a round number of ticks apart must not share their bucket.
func (f *far) bucket(start Tick) *uint32 {
	const golden = 0x9E3779B97F4A7C15
	return &f.buckets[uint64(start)*golden>>32%uint64(len(f.buckets))]
}

// book returns the number of the book that starts at start, or 0.
func (f *far) book(start Tick) uint32 {
	if len(f.heap) == 0 {
		return 0
	}
	i := *f.bucket(start)
	for i != 0 && f.books[i].start != start {
		i = f.books[i].link
	}
	return i
}

func (f *far) openBook(start Tick) uint32 {
	i := f.freeBook
	if i != 0 {
		f.freeBook = f.books[i].link
	} else {
		if len(f.books) == 0 {
			f.books = append(f.books, nil)
		}
		f.books = append(f.books, new(book))
		i = uint32(len(f.books) - 1)
	}
	f.books[i].start = start
	if len(f.heap) == len(f.buckets) {
		f.rehash()
	}
	f.chain(i)
	f.heap = append(f.heap, farStart{start, i})
	f.up(len(f.heap) - 1)
	return i
}

func (f *far) chain(i uint32) {
	b := f.bucket(f.books[i].start)
	f.books[i].link = *b
	*b = i
}

func (f *far) rehash() {
	f.buckets = make([]uint32, max(64, 2*len(f.buckets)))
	for _, e := range f.heap {
		f.chain(e.book)
	}
}

// closeBook forgets a book without pages.
func (f *far) closeBook(i uint32) {
	p := f.bucket(f.books[i].start)
	for *p != i {
		p = &f.books[*p].link
	}
	*p = f.books[i].link

	n, last := int(f.books[i].heap), len(f.heap)-1
	moved := f.heap[last]
	f.heap = f.heap[:last]
	if n < last {
		f.put(n, moved)
		f.up(n)
		f.down(int(f.books[moved.book].heap))
	}
	f.books[i].link = f.freeBook
	f.freeBook = i
}

func (f *far) put(n int, e farStart) {
	f.heap[n] = e
	f.books[e.book].heap = uint32(n)
}

func (f *far) up(n int) {
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

func (f *far) down(n int) {
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
