package hashbelt

import "github.com/txmgr/txmgr/timeout"

// An entry of the index is 24 bits of the end of a container and 40 bits of a place in it. So few bits of the end are
// enough, because no entry is older than two turns of the largest belt.
const (
	placeBits = 40
	placeMask = 1<<placeBits - 1
	endMask   = 1<<(64-placeBits) - 1
)

// index gives the container of a key, by the end of that container, and the place in it. The
// container is authoritative: entries of a container that fell off or was taken off are not looked
// up here, so they are not deleted here either.
//
// It is a belt itself, of two maps. An object that joins a container joins the young one. Nothing
// in the old one ends later than oldEnd: when all containers up to there have left the belt, by
// their end or before it, the old map is dropped whole, and the young one becomes the old one.
type index[K comparable] struct {
	span   timeout.Tick // the number of containers
	oldEnd timeout.Tick
	// Each is nil until there is something in it, so that a rotation need not allocate.
	young, old map[K]uint64
}

func newIndex[K comparable](containers int) index[K] {
	return index[K]{span: timeout.Tick(containers)}
}

// find returns where key is if it is on the belt. The entry in the old map is valid only for a key
// that has not joined a container since.
func (x *index[K]) find(key K, now timeout.Tick) (end timeout.Tick, place uint64, ok bool) {
	entry, ok := x.young[key]
	if !ok {
		entry, ok = x.old[key]
	}
	left := (timeout.Tick(entry>>placeBits) - now) & endMask
	return now + left, entry & placeMask, ok && left-1 < x.span
}

// set records that a key has joined a container.
func (x *index[K]) set(key K, end timeout.Tick, place uint64) {
	if x.young == nil {
		x.young = make(map[K]uint64)
	}
	x.young[key] = uint64(end)<<placeBits | place&placeMask
}

// remove forgets a key.
func (x *index[K]) remove(key K) {
	delete(x.young, key)
	delete(x.old, key)
}

// advance follows the belt: no container is left that ends before first, and the last one that ever
// held something ends no later than last.
func (x *index[K]) advance(first, last timeout.Tick) {
	if first <= x.oldEnd {
		return
	}
	x.old, x.young, x.oldEnd = x.young, nil, last
	if first > last {
		x.old = nil
	}
}
