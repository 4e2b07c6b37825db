package survival

const (
	blockBits   = 12
	blockLength = 1 << blockBits
)

// slab holds elements by number, in blocks that never move: growing costs one block, however many elements there are.
// Number 0 means none; its element stays blank. T must hold no pointer, so that the garbage collector has nothing to follow.
type slab[T any] struct {
	blocks []*[blockLength]T
	made   uint32 // numbers handed out, 0 included; 0 before the first
}

func (s *slab[T]) at(i uint32) *T { return &s.blocks[i>>blockBits][i%blockLength] }

// holds reports whether i may be passed to at.
func (s *slab[T]) holds(i uint32) bool { return int(i>>blockBits) < len(s.blocks) }

// grow returns a number that was never in use.
func (s *slab[T]) grow() uint32 {
	s.made = max(1, s.made)
	i := s.made
	if !s.holds(i) {
		s.blocks = append(s.blocks, new([blockLength]T))
	}
	s.made++
	return i
}
