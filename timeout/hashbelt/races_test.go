package hashbelt

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestExactlyOnce is the first fault of the original, and invariant 2: many put, get, remove and
// rotate at the same time, and in the end each object is in one place: still on the belt, removed
// by one, or expired.
func TestExactlyOnce(t *testing.T) {
	const workers, each = 6, 4000
	for _, kind := range []Kind{Standard, Updating} {
		for _, m := range makers[int, int]() {
			t.Run(kind.String()+"/"+m.name, func(t *testing.T) {
				var places [workers * each]atomic.Int32
				found := func(key, value int) {
					if value != -key {
						t.Errorf("object %d came with %d", key, value)
					}
					places[key].Add(1)
				}
				var expired, removed, got atomic.Int64
				b := newBelt(t, Config[int, int]{Kind: kind, Containers: 3, Container: m.make, Handler: Simple[int, int](
					func(key, value int) { found(key, value); expired.Add(1) })})
				var put [workers]atomic.Int64
				work := func(w int) {
					r := rand.New(rand.NewPCG(uint64(w), 1))
					// An object of another goroutine, one of the last few: those are still on the
					// belt, and others want them too.
					somebodys := func() int {
						other := r.IntN(workers)
						return other*each + max(0, int(put[other].Load())-r.IntN(100))
					}
					for i := range each {
						key := w*each + i
						if err := b.Put(key, -key); err != nil {
							t.Error(err)
						}
						put[w].Store(int64(i))
						for range 3 {
							if v, ok := b.Get(somebodys()); ok && v > 0 {
								t.Errorf("Get = %d", v)
							} else if ok {
								got.Add(1)
							}
						}
						if key := somebodys(); i%3 == 0 {
							if v, ok := b.Remove(key); ok {
								found(key, v)
								removed.Add(1)
							}
						}
						if i%50 == 0 {
							b.Rotate()
						}
					}
				}
				var working sync.WaitGroup
				for w := range workers {
					working.Go(func() { work(w) })
				}
				working.Wait()
				there := 0
				for k, v := range b.All() {
					found(k, v)
					there++
				}
				for k := range places {
					if n := places[k].Load(); n != 1 {
						t.Fatalf("object %d was found in %d places", k, n)
					}
				}
				if there != b.Len() {
					t.Errorf("%d are there, Len %d", there, b.Len())
				}
				if min(expired.Load(), removed.Load(), got.Load()) < each/10 {
					t.Errorf("only %d expired, %d removed, %d got: that tries nothing", expired.Load(), removed.Load(), got.Load())
				}
				if err := b.ring.check(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestNeverMissed is invariant 3: an object that is replaced, moved or read is found by everyone
// all the time, and an object that is kept alive does not expire.
func TestNeverMissed(t *testing.T) {
	const rounds = 3000
	var expired atomic.Int64
	b := newBelt(t, Config[int, int]{Kind: Updating, Containers: 5, Handler: Simple[int, int](func(int, int) { expired.Add(1) })})
	put(t, b, 1, 0)
	var users sync.WaitGroup
	for range 2 {
		users.Go(func() {
			for range rounds {
				if _, ok := b.Get(1); !ok {
					t.Error("Get missed the object")
					return
				}
				// Before each rotation comes a Get of the rotating goroutine, so two at most come
				// without one in between.
				b.Rotate()
			}
		})
		users.Go(func() {
			for n := range rounds {
				if err := b.Put(1, n); err != nil {
					t.Error(err)
				}
				met := 0
				for range b.All() {
					met++
				}
				if met == 0 {
					t.Error("All missed the object")
					return
				}
			}
		})
	}
	users.Wait()
	if expired.Load() != 0 || b.Len() != 1 {
		t.Errorf("%d expired, %d are there", expired.Load(), b.Len())
	}
}

// TestHaltWhileBusy: a belt that is halted under load ends empty, and nothing is handed out twice.
func TestHaltWhileBusy(t *testing.T) {
	var handed [20_000]atomic.Int32
	b := newBelt(t, Config[int, int]{Containers: 2, Handler: Reinserting[int, int](func(key, _ int) bool {
		handed[key].Add(1)
		return key%2 == 0
	})})
	var users sync.WaitGroup
	users.Go(func() {
		for key := range handed {
			if b.Put(key, 0) != nil {
				return
			}
			if key%100 == 0 {
				b.Rotate()
			}
			if key == len(handed)/2 {
				users.Go(b.Halt)
				users.Go(b.Clear)
			}
		}
	})
	users.Go(func() {
		for key := range handed {
			b.Get(key)
			b.Remove(key)
		}
	})
	users.Wait()
	if b.Len() != 0 || b.Rotate() != 0 {
		t.Errorf("a halted belt holds %d objects", b.Len())
	}
	for key := 1; key < len(handed); key += 2 {
		if n := handed[key].Load(); n > 1 {
			t.Errorf("object %d was handed out %d times", key, n)
		}
	}
}
