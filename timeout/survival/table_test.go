package survival

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const year = 365 * 24 * 3600 * 10 // ticks of 100 ms

// history drives a table and its model with the same calls and compares all results.
type history struct {
	table *Table
	model *model
	ids   uint64
	refs  []entryRef // of every transaction ever added, gone ones included
}

type entryRef struct {
	id  uint64
	ref Ref
}

func newHistory(now Tick) *history {
	return &history{table: NewTable(now), model: &model{now: now}}
}

type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func (h *history) add(t fataler, end Tick) {
	t.Helper()
	h.ids++
	ref := h.table.Add(h.ids, end)
	if ref == 0 {
		t.Fatalf("Add(%d, %d) returned the zero Ref", h.ids, end)
	}
	h.model.add(h.ids, end)
	h.refs = append(h.refs, entryRef{h.ids, ref})
}

func (h *history) cancel(t fataler, id uint64, ref Ref) {
	t.Helper()
	// A foreign ref must not find id even where id is pending.
	want := h.refs[id-1].ref == ref && h.model.cancel(id)
	if got := h.table.Cancel(id, ref); got != want {
		t.Fatalf("Cancel(%d, %#x) = %v, want %v", id, ref, got, want)
	}
}

func (h *history) advance(to Tick) {
	h.table.Advance(to)
	h.model.advance(to)
}

func (h *history) expire(t fataler, size int) {
	t.Helper()
	got, want := make([]uint64, size), make([]uint64, size)
	n, m := h.table.Expire(got), h.model.expire(want)
	if diff := cmp.Diff(want[:m], got[:n]); diff != "" {
		t.Fatalf("Expire of %d at %d (-want +got):\n%s", size, h.model.now, diff)
	}
}

func (h *history) compare(t fataler) {
	t.Helper()
	if err := h.table.check(); err != nil {
		t.Fatal(err)
	}
	want := h.model.all()
	var got []entry
	for id, end := range h.table.All() {
		got = append(got, entry{id, end})
	}
	if !slices.Equal(want, got) {
		t.Fatalf("All at %d (-want +got):\n%s", h.model.now, cmp.Diff(want, got, cmp.AllowUnexported(entry{})))
	}
	if h.table.Now() != h.model.now || h.table.Len() != len(want) {
		t.Fatalf("Now, Len = %d, %d; want %d, %d", h.table.Now(), h.table.Len(), h.model.now, len(want))
	}
	next, ok := h.table.Next()
	if ok != (len(want) > 0) || ok && next != want[0].end {
		t.Fatalf("Next = %d, %v; want the end of %v", next, ok, want)
	}
	if due := ok && next <= h.model.now; h.table.Due() != due {
		t.Fatalf("Due = %v, want %v", !due, due)
	}
	type size struct {
		end Tick
		n   int
	}
	var wantGroups, gotGroups []size
	for _, e := range want {
		if n := len(wantGroups); n > 0 && wantGroups[n-1].end == e.end {
			wantGroups[n-1].n++
		} else {
			wantGroups = append(wantGroups, size{e.end, 1})
		}
	}
	for end, n := range h.table.Groups(0) {
		gotGroups = append(gotGroups, size{end, n})
	}
	if !slices.Equal(wantGroups, gotGroups) {
		t.Fatalf("Groups = %v, want %v", gotGroups, wantGroups)
	}
	for _, g := range wantGroups {
		for _, from := range []Tick{g.end, g.end - 1, g.end + 1} {
			gotGroups = gotGroups[:0]
			for end, n := range h.table.Groups(from) {
				gotGroups = append(gotGroups, size{end, n})
			}
			rest := slices.DeleteFunc(slices.Clone(wantGroups), func(g size) bool { return g.end < from })
			if !slices.Equal(rest, gotGroups) {
				t.Fatalf("Groups from %d = %v, want %v", from, gotGroups, rest)
			}
		}
	}
}

// TestModel compares the table with the original algorithm in random histories, and checks
// everything after each step: all invariants of the package doc but 9.
func TestModel(t *testing.T) { rapid.Check(t, runHistory) }

// FuzzModel is TestModel with histories that the fuzzer finds.
func FuzzModel(f *testing.F) { f.Fuzz(rapid.MakeFuzz(runHistory)) }

func runHistory(t *rapid.T) {
	// A start at 0 finds underflows below the ring, one at the other end of the range overflows
	// above it.
	now := rapid.SampledFrom([]Tick{0, 1, ringSize - 2, 1 << 40, math.MaxUint64 - 20*year}).Draw(t, "now")
	h := newHistory(now)
	end := rapid.Custom(func(t *rapid.T) Tick {
		ahead := rapid.OneOf(
			rapid.Uint64Range(1, 4),
			rapid.Uint64Range(1, 100),
			rapid.Uint64Range(ringSize-3, ringSize+3),
			rapid.Uint64Range(1, 3*ringSize),
			rapid.Map(rapid.Uint64Range(1, 5), func(n uint64) uint64 { return n * ringSize }),
			rapid.Uint64Range(1, year),
		).Draw(t, "ahead")
		return h.table.Now() + Tick(ahead)
	})
	past := rapid.Custom(func(t *rapid.T) Tick {
		return h.table.Now() - min(h.table.Now(), Tick(rapid.Uint64Range(0, 2*ringSize).Draw(t, "ago")))
	})
	one := func(t *rapid.T) entryRef { return rapid.SampledFrom(h.refs).Draw(t, "entry") }
	h.add(t, end.Draw(t, "end"))
	t.Repeat(map[string]func(*rapid.T){
		"":         func(t *rapid.T) { h.compare(t) },
		"add":      func(t *rapid.T) { h.add(t, end.Draw(t, "end")) },
		"add past": func(t *rapid.T) { h.add(t, past.Draw(t, "end")) },
		"add many": func(t *rapid.T) {
			e := end.Draw(t, "end")
			for range rapid.IntRange(2, 3*chunkIDs).Draw(t, "n") {
				h.add(t, e)
			}
		},
		"add scattered": func(t *rapid.T) {
			for range rapid.IntRange(2, 30).Draw(t, "n") {
				h.add(t, end.Draw(t, "end"))
			}
		},
		"cancel": func(t *rapid.T) {
			e := one(t)
			h.cancel(t, e.id, e.ref)
		},
		"cancel twice": func(t *rapid.T) {
			e := one(t)
			h.cancel(t, e.id, e.ref)
			h.cancel(t, e.id, e.ref)
		},
		"cancel many": func(t *rapid.T) {
			for range rapid.IntRange(2, 30).Draw(t, "n") {
				e := one(t)
				h.cancel(t, e.id, e.ref)
			}
		},
		"cancel with another's ref": func(t *rapid.T) { h.cancel(t, one(t).id, one(t).ref) },
		"cancel with no ref":        func(t *rapid.T) { h.cancel(t, one(t).id, Ref(rapid.Uint32().Draw(t, "ref"))) },
		"advance one":               func(t *rapid.T) { h.advance(h.table.Now() + 1) },
		"advance many": func(t *rapid.T) {
			h.advance(h.table.Now() + Tick(rapid.Uint64Range(2, 3*ringSize).Draw(t, "ticks")))
		},
		"advance to next": func(t *rapid.T) {
			next, _ := h.table.Next()
			h.advance(next)
		},
		"advance a year": func(t *rapid.T) {
			if h.table.Now() < math.MaxUint64-3*year {
				h.advance(h.table.Now() + year)
			}
		},
		"go back": func(t *rapid.T) { h.advance(past.Draw(t, "to")) },
		"expire":  func(t *rapid.T) { h.expire(t, rapid.IntRange(0, 20).Draw(t, "size")) },
		"expire all": func(t *rapid.T) {
			for h.table.Due() {
				h.expire(t, 1+h.table.Len()/2)
			}
		},
	})
}

// TestModelLong runs one long history, which fills blocks, grows overflow and wraps the ring many
// times.
func TestModelLong(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	h := newHistory(0)
	var held []entryRef
	for step := range 60_000 {
		switch x := r.IntN(100); {
		case x < 56:
			ahead := 1 + r.Uint64N(6000)
			switch r.IntN(6) {
			case 0:
				ahead = 600
			case 1:
				ahead = 1 + r.Uint64N(200*ringSize)
			}
			h.add(t, h.table.Now()+Tick(ahead))
			held = append(held, h.refs[len(h.refs)-1])
		case x < 90 && len(held) > 0:
			k := r.IntN(len(held))
			h.cancel(t, held[k].id, held[k].ref)
			held[k] = held[len(held)-1]
			held = held[:len(held)-1]
		case x < 92 && len(h.refs) > 0:
			e := h.refs[r.IntN(len(h.refs))]
			h.cancel(t, e.id, e.ref)
		case x < 95:
			h.advance(h.table.Now() + 1 + Tick(r.Uint64N(20)))
			h.expire(t, r.IntN(200))
		}
		if step%10_000 == 0 {
			h.compare(t)
		}
	}
	for range 3 {
		h.advance(h.table.Now() + 100*ringSize)
		for h.table.Due() {
			h.expire(t, 4096)
		}
		h.compare(t)
	}
	if h.table.Len() != 0 {
		t.Errorf("%d transactions never ended", h.table.Len())
	}
}

// A group of many blocks, every third transaction of which was cancelled, must come out whole and in order whatever the
// size of the batches.
func TestManyBlocks(t *testing.T) {
	const n = 10 * blockLength * chunkIDs / 4
	table := NewTable(7)
	refs := make([]Ref, n+1)
	for id := uint64(1); id <= n; id++ {
		refs[id] = table.Add(id, 7+1+Tick(id%2))
	}
	var want [2][]uint64
	for id := uint64(1); id <= n; id++ {
		if id%3 > 0 {
			want[id%2] = append(want[id%2], id)
		} else if !table.Cancel(id, refs[id]) {
			t.Fatalf("cancel of %d refused", id)
		}
	}
	if err := table.check(); err != nil {
		t.Fatal(err)
	}
	table.Advance(1000)
	var got []uint64
	r := rand.New(rand.NewPCG(1, 2))
	for table.Due() {
		buf := make([]uint64, 1+r.IntN(2000))
		got = append(got, buf[:table.Expire(buf)]...)
	}
	if !slices.Equal(slices.Concat(want[0], want[1]), got) {
		t.Error("transactions were lost or changed their order")
	}
	if err := table.check(); err != nil {
		t.Fatal(err)
	}
}

// A caller that wants only the first few must get no more, and a table rebuilt from All must be the
// same.
func TestAllAndGroups(t *testing.T) {
	table := NewTable(0)
	ends := []Tick{2, 2, 9, ringSize + 100, ringSize + 100, year}
	for n, end := range ends {
		table.Add(uint64(n)+1, end)
	}
	table.Advance(3)
	for stop := range ends {
		n := 0
		for id := range table.All() {
			n++
			if id != uint64(n) {
				t.Fatalf("transaction %d at place %d", id, n)
			}
			if n > stop {
				break
			}
		}
		if n != stop+1 {
			t.Errorf("All yielded %d transactions, want %d", n, stop+1)
		}
	}
	for stop := range 4 {
		n := 0
		for range table.Groups(0) {
			n++
			if n > stop {
				break
			}
		}
		if n != stop+1 {
			t.Errorf("Groups yielded %d groups, want %d", n, stop+1)
		}
	}

	rebuilt := NewTable(0)
	for id, end := range table.All() {
		rebuilt.Add(id, end)
	}
	rebuilt.Advance(table.Now())
	if diff := cmp.Diff(maps.Collect(table.All()), maps.Collect(rebuilt.All())); diff != "" {
		t.Errorf("the rebuilt table differs (-want +got):\n%s", diff)
	}
	table.Advance(2 * year)
	rebuilt.Advance(2 * year)
	want, got := make([]uint64, len(ends)+1), make([]uint64, len(ends)+1)
	if n, m := table.Expire(want), rebuilt.Expire(got); n != len(ends) || m != n || !slices.Equal(want[:n], got[:m]) {
		t.Errorf("the rebuilt table expires %v, want %v", got[:m], want[:n])
	}
}

func TestCancelOfStaleRef(t *testing.T) {
	table := NewTable(0)
	old := table.Add(1, 5)
	if !table.Cancel(1, old) {
		t.Fatal("cancel of a pending transaction refused")
	}
	reused := table.Add(2, 5)
	if reused != old {
		t.Fatalf("place %#x was not reused, got %#x", old, reused)
	}
	if table.Cancel(1, old) {
		t.Error("cancelled the transaction that has taken the place")
	}
	if table.Cancel(0, old) || table.Cancel(2, 0) || table.Cancel(2, math.MaxUint32) || table.Cancel(2, old|7) {
		t.Error("cancelled by a reference that was never given")
	}
	if !table.Cancel(2, reused) || table.Len() != 0 {
		t.Error("cancel of a pending transaction refused")
	}
}

// A ref of a transaction that was taken must not find it where its id still lies in a chunk that is in use again.
func TestCancelAfterExpire(t *testing.T) {
	table := NewTable(0)
	var refs []Ref
	for id := range uint64(chunkIDs) {
		refs = append(refs, table.Add(id+1, 5))
	}
	table.Advance(5)
	if n := table.Expire(make([]uint64, chunkIDs)); n != chunkIDs {
		t.Fatalf("expired %d, want %d", n, chunkIDs)
	}
	table.Add(100, 9)
	for id, ref := range refs {
		if table.Cancel(uint64(id)+1, ref) {
			t.Errorf("cancelled transaction %d, which was taken", id+1)
		}
	}
	if table.Len() != 1 {
		t.Errorf("Len = %d, want 1", table.Len())
	}
}

func TestAddRefuses(t *testing.T) {
	table := NewTable(0)
	if ref := table.Add(0, 5); ref != 0 || table.Len() != 0 {
		t.Errorf("Add of id 0 = %#x, Len %d", ref, table.Len())
	}
	table.pending = MaxEntries
	if ref := table.Add(1, 5); ref != 0 || table.Len() != MaxEntries {
		t.Errorf("Add to a full table = %#x, Len %d", ref, table.Len())
	}
	if next, ok := table.Next(); ok {
		t.Errorf("a refused Add opened the group of %d", next)
	}
}

// A group of which the last transaction was cancelled must not cause a wakeup.
func TestNextSkipsEmptiedGroups(t *testing.T) {
	for _, tt := range []struct {
		name        string
		first, then Tick
	}{
		{"both near", 5, 6},
		{"next lap", 5, ringSize - 1},
		{"only the other far", 5, ringSize + 5},
		{"both far", ringSize + 5, year},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := NewTable(0)
			a, b := table.Add(1, tt.first), table.Add(2, tt.first)
			table.Add(3, tt.then)
			table.Cancel(1, a)
			if next, _ := table.Next(); next != tt.first {
				t.Errorf("Next = %d, want %d", next, tt.first)
			}
			table.Cancel(2, b)
			if next, _ := table.Next(); next != tt.then {
				t.Errorf("Next = %d, want %d", next, tt.then)
			}
		})
	}
}

// The cost of a jump must depend on the transactions that end in it, not on its length: a table
// that walked a year of ticks for each of these would take minutes.
func TestAdvanceFar(t *testing.T) {
	table := NewTable(0)
	buf := make([]uint64, 8)
	for id := uint64(1); id <= 1000; id++ {
		end := table.Now() + year
		table.Add(id, end)
		table.Advance(end - 1)
		if table.Due() {
			t.Fatalf("due at %d, one tick before %d", table.Now(), end)
		}
		table.Advance(end)
		if n := table.Expire(buf); n != 1 || buf[0] != id {
			t.Fatalf("Expire = %v, want [%d]", buf[:n], id)
		}
	}
}

// A table at a steady load must not allocate.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	table := NewTable(0)
	refs := make([]entryRef, 5000)
	buf := make([]uint64, 64)
	id := uint64(0)
	round := func() {
		for range 50 {
			e := &refs[r.IntN(len(refs))]
			table.Cancel(e.id, e.ref)
			id++
			ahead := 1 + Tick(r.Uint64N(600))
			if id%4 == 0 {
				ahead += ringSize
			}
			*e = entryRef{id, table.Add(id, table.Now()+ahead)}
		}
		table.Advance(table.Now() + 1)
		for table.Due() {
			table.Expire(buf)
		}
	}
	for range 20_000 {
		round()
	}
	if n := testing.AllocsPerRun(5000, round); n != 0 {
		t.Errorf("%v allocations per round of 50 pairs, want 0", n)
	}
}

// TestBooksAreSpread: wherever the segments lie, few share a bucket, so that finding one does not
// depend on how many there are.
func TestBooksAreSpread(t *testing.T) {
	for stride := Tick(1); 1000*stride*segmentSize < 1<<40; stride <<= 1 { // up to 3,000 years of ticks of 100 ms
		table := NewTable(0)
		for n := range Tick(1000) {
			table.Add(uint64(n+1), (n+2)*stride*segmentSize)
		}
		f := &table.groups.overflow
		for _, i := range f.buckets {
			length := 0
			for ; i != 0; i = f.segments[i].link {
				length++
			}
			if length > 8 {
				t.Fatalf("%d of %d books, %d book sizes apart, share one of %d buckets", length, len(f.heap), stride, len(f.buckets))
			}
		}
	}
}
