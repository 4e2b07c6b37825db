package wal

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// Log is a log in segments. Make one with [Open].
type Log struct {
	dir      string
	opts     Options
	segments []*segment // oldest first; frames are appended to the last
	at       int64      // where the next frame goes
	sum      uint32     // checksum of the last frame
	buf      []byte
	filler   *filler

	syncs atomic.Int64
	bytes atomic.Int64 // of all segments
	free  atomic.Int64 // of the last one
}

// Position is where a frame is.
type Position struct {
	seg *segment
	at  int64
}

// keepBuf is how much encoding buffer is kept between calls.
const keepBuf = 4 << 20

// Append writes a frame: when it returns nil the frame is on the disk, at the cost of one fdatasync, and
// of some more when a segment is full. After an error the log must be closed: the frame may be there
// when it is opened again, or not.
func (l *Log) Append(f Frame) (Position, error) {
	if len(f.Body) > MaxBody {
		return Position{}, fmt.Errorf("a frame of %d bytes, the most is %d", len(f.Body), MaxBody)
	}
	if need := frameBytes(len(f.Body)); l.at+need+turnBytes > l.last().size {
		if err := l.turn(need); err != nil {
			return Position{}, err
		}
	}
	if last := l.last(); l.at > last.size/2 {
		l.filler.want(l.sizeOf(last.number + 1))
	}
	return l.write(f)
}

func (l *Log) last() *segment { return l.segments[len(l.segments)-1] }

func (l *Log) write(f Frame) (Position, error) {
	s := l.last()
	b, sum := f.encode(l.buf, s.nonce, l.at, l.sum)
	if l.buf = b; cap(b) > keepBuf {
		l.buf = nil
	}
	if _, err := s.f.WriteAt(b, l.at); err != nil {
		return Position{}, err
	}
	if err := l.sync(s); err != nil {
		return Position{}, err
	}
	p := Position{s, l.at}
	l.at, l.sum = l.at+int64(len(b)), sum
	l.free.Store(s.size - l.at)
	return p, nil
}

func (l *Log) sync(s *segment) error {
	l.syncs.Add(1)
	return datasync(s.f)
}

// ReadAt reads a part of the body of a frame.
func (p Position) ReadAt(offset int64, b []byte) error {
	_, err := p.seg.f.ReadAt(b, p.at+frameHeader+offset)
	return err
}

// Place names the file and the offset of a part of the body of a frame, for errors.
func (p Position) Place(offset int64) (file string, at int64) {
	return p.seg.name, p.at + frameHeader + offset
}

// ID tells the log apart from others. It does not change.
func (l *Log) ID() uint32 { return l.opts.ID }

// Bytes is the size of all files.
func (l *Log) Bytes() int64 { return l.bytes.Load() + l.filler.bytes.Load() }

// Free is the part of Bytes that frames can use before a further file is made.
func (l *Log) Free() int64 { return l.free.Load() + l.filler.bytes.Load() }

// Syncs is how often the disk was asked to synchronize a segment since Open.
func (l *Log) Syncs() int64 { return l.syncs.Load() }

// Close closes the files, and waits for the goroutine that fills the next one.
func (l *Log) Close() error {
	err := l.filler.close()
	for _, s := range l.segments {
		err = errors.Join(err, s.close())
	}
	return err
}
