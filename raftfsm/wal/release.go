package wal

import (
	"errors"
	"os"
)

// Release says that the frames before keep are not needed; the zero Position means that none is. They are dropped by
// whole segments, after a frame that says so to [Open] is on the disk; there is no such frame when none can be
// dropped. An error means the same as one of [Log.Append].
func (l *Log) Release(keep Position) error {
	oldest := l.last().number
	if keep.seg != nil {
		oldest = keep.seg.number
	}
	if oldest == l.segments[0].number {
		return nil
	}
	if _, err := l.Append(Frame{Kind: head, Index: oldest}); err != nil {
		return err
	}
	for l.segments[0].number < oldest {
		if err := l.drop(l.segments[0]); err != nil {
			return err
		}
		l.segments = l.segments[1:]
	}
	return nil
}

// drop gives a segment that is not needed to the filler, or removes it. One is gone for certain before the next one:
// no crash leaves a gap.
func (l *Log) drop(s *segment) error {
	reused, err := l.filler.reuse(s, l.sizeOf(l.last().number+1))
	if err == nil && !reused {
		err = errors.Join(s.close(), os.Remove(s.name))
	}
	if err != nil {
		return err
	}
	l.bytes.Add(-s.size)
	return SyncDir(l.dir)
}
