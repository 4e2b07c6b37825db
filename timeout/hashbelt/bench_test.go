package hashbelt

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

const turn = 8 // containers of the belts that are measured

// belt is the interface of a benchmark to a belt, and to its model.
type belt interface {
	put(key, value uint64)
	putFor(key, value uint64, rotations int)
	get(key uint64) bool
	remove(key uint64) bool
	rotate() int
}

type ours struct{ *Belt[uint64, uint64] }

func (b ours) put(key, value uint64) { _ = b.Put(key, value) }
func (b ours) putFor(key, value uint64, rotations int) {
	_ = b.PutFor(key, value, rotations)
}
func (b ours) get(key uint64) bool    { _, ok := b.Get(key); return ok }
func (b ours) remove(key uint64) bool { _, ok := b.Remove(key); return ok }
func (b ours) rotate() int            { return b.Rotate() }

type theirs struct{ *modelBelt[uint64, uint64] }

func (b theirs) put(key, value uint64) { _ = b.modelBelt.put(key, value) }
func (b theirs) putFor(key, value uint64, rotations int) {
	_ = b.modelBelt.putFor(key, value, rotations, false)
}
func (b theirs) get(key uint64) bool    { _, ok := b.modelBelt.get(key); return ok }
func (b theirs) remove(key uint64) bool { _, ok := b.modelBelt.remove(key); return ok }

// eachBelt runs a benchmark for the three containers and the model, at three sizes.
func eachBelt(b *testing.B, kind Kind, containers int, run func(b *testing.B, belt belt, size int)) {
	for _, size := range []int{10_000, 100_000, 1_000_000} {
		for _, m := range makers[uint64, uint64]() {
			b.Run(fmt.Sprintf("%s/%d", m.name, size), func(b *testing.B) {
				belt, err := New(Config[uint64, uint64]{Kind: kind, Containers: containers, Container: m.make})
				if err != nil {
					b.Fatal(err)
				}
				run(b, ours{belt}, size)
			})
		}
		b.Run(fmt.Sprintf("walk/%d", size), func(b *testing.B) {
			run(b, theirs{newModelBelt(kind, containers, NewMap[uint64, uint64])}, size)
		})
	}
}

// spread puts keys 0 to size-1 on a belt, as many on each container.
func spread(belt belt, containers, size int) {
	for key := range size {
		if key > 0 && key%(size/containers) == 0 && key/(size/containers) < containers {
			belt.rotate()
		}
		belt.put(uint64(key), uint64(key))
	}
}

// BenchmarkPut puts new objects on a belt on which as many fall off: each costs its part of the rotations too.
func BenchmarkPut(b *testing.B) {
	eachBelt(b, Standard, turn, func(b *testing.B, belt belt, size int) {
		spread(belt, turn, size)
		b.ReportAllocs()
		for key := uint64(size); b.Loop(); key++ {
			if key%uint64(size/turn) == 0 {
				belt.rotate()
			}
			belt.put(key, key)
		}
	})
}

// BenchmarkGet gets random objects, which stay where they are.
func BenchmarkGet(b *testing.B) {
	for _, containers := range []int{turn, 60} {
		b.Run(fmt.Sprintf("containers=%d", containers), func(b *testing.B) {
			eachBelt(b, Standard, containers, func(b *testing.B, belt belt, size int) {
				spread(belt, containers, size)
				r := rand.New(rand.NewPCG(1, 2))
				for b.Loop() {
					if !belt.get(r.Uint64N(uint64(size))) {
						b.Fatal("missed")
					}
				}
			})
		})
	}
}

// BenchmarkGetAbsent asks for objects that are not there, which is what every put of a new one does first.
func BenchmarkGetAbsent(b *testing.B) {
	for _, containers := range []int{turn, 60} {
		b.Run(fmt.Sprintf("containers=%d", containers), func(b *testing.B) {
			eachBelt(b, Standard, containers, func(b *testing.B, belt belt, size int) {
				spread(belt, containers, size)
				r := rand.New(rand.NewPCG(1, 2))
				for b.Loop() {
					if belt.get(uint64(size) + r.Uint64N(uint64(size))) {
						b.Fatal("found")
					}
				}
			})
		})
	}
}

// BenchmarkKeepAlive gets every object of an updating belt once between two rotations, in a random order, so that each get
// moves its object to the front.
func BenchmarkKeepAlive(b *testing.B) {
	eachBelt(b, Updating, turn, func(b *testing.B, belt belt, size int) {
		spread(belt, turn-1, size) // so that the first rotation drops nothing
		order := rand.New(rand.NewPCG(1, 2)).Perm(size)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if i == size {
				i = 0
			}
			if i == 0 {
				belt.rotate()
			}
			if !belt.get(uint64(order[i])) {
				b.Fatal("missed")
			}
		}
	})
}

// BenchmarkRemove removes random objects in rounds and puts as many new ones, on each container as many, and reports both.
func BenchmarkRemove(b *testing.B) {
	eachBelt(b, Standard, turn, func(b *testing.B, belt belt, size int) {
		spread(belt, turn, size)
		r := rand.New(rand.NewPCG(1, 2))
		held, round := make([]uint64, size), size/20
		for i := range held {
			held[i] = uint64(i)
		}
		var removing, putting time.Duration
		for key := uint64(size); b.Loop(); {
			for i := range round {
				j := i + r.IntN(size-i)
				held[i], held[j] = held[j], held[i]
			}
			start := time.Now()
			for _, key := range held[:round] {
				if !belt.remove(key) {
					b.Fatal("missed")
				}
			}
			removing += time.Since(start)
			start = time.Now()
			for i := range round {
				belt.putFor(key, key, 1+i%turn)
				held[i] = key
				key++
			}
			putting += time.Since(start)
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(removing.Nanoseconds())/float64(b.N*round), "ns/remove")
		b.ReportMetric(float64(putting.Nanoseconds())/float64(b.N*round), "ns/put")
	})
}

// BenchmarkRotate lets a container with all objects fall off, of a belt in use. It reports the time of taking it off, which
// is what happens under the lock, with a reading of the clock, and the time that a handler takes for each object.
func BenchmarkRotate(b *testing.B) {
	for _, size := range []int{10_000, 100_000, 1_000_000} {
		for _, m := range makers[uint64, uint64]() {
			b.Run(fmt.Sprintf("%s/%d", m.name, size), func(b *testing.B) {
				var locked []time.Duration
				var handling time.Duration
				sum := uint64(0)
				handler := Simple[uint64, uint64](func(_, value uint64) { sum += value })
				for b.Loop() {
					belt, err := New(Config[uint64, uint64]{Kind: Updating, Containers: 1, Container: m.make})
					if err != nil {
						b.Fatal(err)
					}
					spread(ours{belt}, 1, size)
					runtime.GC()
					for key := range 1000 {
						belt.Get(uint64(key))
					}
					_ = time.Since(time.Now()) // the clock must not be cold
					start := time.Now()
					gone := belt.rotate()
					locked = append(locked, time.Since(start))
					start = time.Now()
					handler.Expire(belt, gone)
					handling += time.Since(start)
				}
				if sum == 0 {
					b.Fatal("nothing fell off")
				}
				slices.Sort(locked)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(locked[len(locked)/2].Nanoseconds()), "ns/locked")
				b.ReportMetric(float64(locked[len(locked)-1].Nanoseconds()), "ns/locked-max")
				b.ReportMetric(float64(handling.Nanoseconds())/float64(b.N*size), "ns/object")
			})
		}
	}
}

// BenchmarkMemory reports the bytes that an object takes, of a number and a number: on a belt that
// was filled, and on one that has turned once, whose index is largest then.
func BenchmarkMemory(b *testing.B) {
	const size = 1_000_000
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for _, turned := range []bool{false, true} {
		for _, m := range makers[uint64, uint64]() {
			b.Run(fmt.Sprintf("%s/turned=%v", m.name, turned), func(b *testing.B) {
				for b.Loop() {
					without := heap()
					belt, err := New(Config[uint64, uint64]{Containers: turn, Container: m.make})
					if err != nil {
						b.Fatal(err)
					}
					total := size
					if turned {
						total = 2 * size
					}
					for key := range total {
						if key > 0 && key%(size/turn) == 0 && key/(size/turn) < total*turn/size {
							belt.Rotate()
						}
						_ = belt.Put(uint64(key), uint64(key))
					}
					b.ReportMetric(float64(heap()-without)/float64(belt.Len()), "B/object")
					runtime.KeepAlive(belt)
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
