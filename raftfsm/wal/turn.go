package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// turn goes on in the next segment, which has room for a frame of need bytes. The new segment is
// complete before the old one refers to it: after a crash in between it is empty, and is removed.
func (l *Log) turn(need int64) error {
	number := l.last().number + 1
	next, err := l.newSegment(number, max(l.sizeOf(number), segmentHeader+need+turnBytes))
	if err != nil {
		return fmt.Errorf("a further segment: %w", err)
	}
	if _, err := l.write(Frame{Kind: turn, Index: number, Body: binary.BigEndian.AppendUint64(nil, next.nonce)}); err != nil {
		return errors.Join(err, next.close())
	}
	l.add(next)
	return nil
}

// add makes a segment the last one.
func (l *Log) add(s *segment) {
	l.segments = append(l.segments, s)
	l.bytes.Add(s.size)
	l.at = segmentHeader
	l.free.Store(s.size - l.at)
}

// sizeOf is the size of a segment: the first ones are small.
func (l *Log) sizeOf(number uint64) int64 {
	size := int64(firstSegment)
	for i := uint64(1); i < number && size < l.opts.SegmentBytes; i++ {
		size *= 4
	}
	return min(size, l.opts.SegmentBytes)
}

// newSegment makes the segment with a number, of at least a size, and makes it durable.
func (l *Log) newSegment(number uint64, size int64) (_ *segment, err error) {
	for l.opts.ID == 0 {
		l.opts.ID = uint32(newNonce() >> 32)
	}
	file, err := l.filler.take(size)
	if err != nil {
		return nil, err
	}
	s := &segment{f: file.f, name: segmentName(l.dir, number), number: number, nonce: newNonce(), log: l.opts.ID, size: file.size}
	if _, err = s.f.WriteAt(s.header(), 0); err == nil {
		err = l.sync(s)
	}
	if err == nil {
		err = os.Rename(file.name, s.name)
	}
	if err == nil {
		err = SyncDir(l.dir)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}
