package slab

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// photo is what a snapshot shares, and what was in the slab at that time.
type photo struct {
	pages Pages[uint64]
	held  map[uint32]uint64
}

// TestSlabIsAMap compares a slab with a map. What a snapshot shares stays as it was until it is released.
func TestSlabIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var shared atomic.Int32
		s, held := New[uint64](&shared), map[uint32]uint64{}
		var photos []photo
		some := func() uint32 { return rapid.SampledFrom(slices.Sorted(maps.Keys(held))).Draw(t, "slot") }
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				for range rapid.SampledFrom([]int{1, 3, blockItems}).Draw(t, "many") {
					i := s.Take()
					if _, taken := held[i]; taken || i == 0 || i >= s.Used() || *s.At(i) != 0 {
						t.Fatalf("took slot %d of %d, which has %d; taken before: %v", i, s.Used(), *s.At(i), taken)
					}
					held[i] = rapid.Uint64().Draw(t, "item")
					*s.Edit(i) = held[i]
				}
			},
			"edit": func(t *rapid.T) {
				if len(held) > 0 {
					i := some()
					held[i]++
					*s.Edit(i) = held[i]
				}
			},
			"give": func(*rapid.T) {
				if len(held) > 0 {
					i := some()
					delete(held, i)
					s.Give(i)
				}
			},
			"share": func(*rapid.T) {
				shared.Add(1)
				photos = append(photos, photo{s.Share(), maps.Clone(held)})
			},
			"release": func(*rapid.T) {
				if len(photos) > 0 {
					photos = photos[1:]
					shared.Add(-1)
				}
			},
			"": func(t *rapid.T) {
				for _, p := range append(photos, photo{s.Pages, held}) {
					for i, want := range p.held { //archtest:order each is checked alone
						if got := *p.pages.At(i); got != want {
							t.Fatalf("slot %d has %d; want %d", i, got, want)
						}
					}
				}
				if s.Len() != len(held) {
					t.Fatalf("%d slots are taken; want %d", s.Len(), len(held))
				}
			},
		})
	})
}

// TestStrings: strings of all lengths around the borders of cells are read as they were stored, and give their cells back.
func TestStrings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewStrings(new(atomic.Int32))
		var refs []StringRef
		var all []string
		for range rapid.IntRange(1, 20).Draw(t, "strings") {
			text := strings.Repeat(rapid.StringN(1, 1, 4).Draw(t, "text"), rapid.IntRange(0, 90).Draw(t, "times"))
			all, refs = append(all, text), append(refs, Store(&s, text))
		}
		for i, want := range all {
			p, x := s.Pages(), refs[i]
			if got := string(p.Append(nil, x)); got != want || !p.Equal(x, []byte(want)) || p.Equal(x, []byte(want+"x")) || want != "" && p.Equal(x, []byte(want[1:])) {
				t.Fatalf("%q is read as %q", want, got)
			}
			if got := p.AppendSized(nil, x); string(got[len(got)-len(want):]) != want || len(got) == len(want) {
				t.Fatalf("%q is encoded as %q", want, got)
			}
			if n := min(len(want), 26); n > 0 && string(p.Head(x)[:n]) != want[:n] {
				t.Fatalf("%q begins with %q", want, p.Head(x)[:n])
			}
		}
		for _, x := range refs {
			s.Drop(x)
		}
		if s.Len() != 0 {
			t.Fatalf("%d cells are left", s.Len())
		}
	})
}
