package wal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// reader reads the segments of a log in their order.
type reader struct {
	log    *Log
	take   func(Frame, Position) error
	begun  bool   // a frame was read
	next   Frame  // the turn at the end of the segment before; of no kind if there is none
	oldest uint64 // the first segment that is needed, as the last head says
	unused string // a segment that no turn refers to
}

// read reads all segments, and checks that none is missing.
func (r *reader) read(names []string) error {
	for i, name := range names {
		if err := r.segment(name, i == len(names)-1); err != nil {
			return err
		}
	}
	segments := r.log.segments
	switch {
	case r.next.Kind == turn:
		return &CorruptError{File: segmentName(r.log.dir, r.next.Index), Reason: "the last segment is missing"}
	case len(segments) > 0 && segments[0].number > max(r.oldest, 1):
		return &CorruptError{File: segmentName(r.log.dir, max(r.oldest, 1)), Reason: "the first segment is missing"}
	}
	return nil
}

// segment reads one segment.
func (r *reader) segment(name string, last bool) error {
	s, b, err := readSegment(name, r.log.opts.trustCache)
	if err != nil {
		return err
	}
	first := len(r.log.segments) == 0
	r.log.segments = append(r.log.segments, s) // to be closed if Open fails
	damaged := func(at int64, reason string) error { return &CorruptError{File: name, Offset: at, Reason: reason} }
	bad := s.readHeader(b, int64(len(b)))
	if !first && r.next.Kind != turn {
		// The turn was not written before the end: nothing can have been appended here.
		switch {
		case errors.Is(bad, ErrVersion), errors.Is(bad, ErrNotLog):
			return fmt.Errorf("%s: %w", name, bad)
		case !last || bad == nil && laterFrame(b, segmentHeader-alignment, s.nonce) >= 0:
			return damaged(0, "the segment before it does not refer to it")
		}
		r.log.segments = r.log.segments[:len(r.log.segments)-1]
		r.unused = name
		return s.close()
	}
	number, _ := numberOf(name)
	switch {
	case errors.Is(bad, ErrVersion), errors.Is(bad, ErrNotLog):
		return fmt.Errorf("%s: %w", name, bad)
	case bad != nil:
		return damaged(0, bad.Error())
	case s.log != cmp.Or(r.log.opts.ID, s.log):
		return damaged(0, fmt.Sprintf("it belongs to another log (%08x instead of %08x)", s.log, r.log.opts.ID))
	case s.number != number:
		return damaged(0, fmt.Sprintf("it is segment %d", s.number))
	case r.next.Kind == turn && (r.next.Index != number || binary.BigEndian.Uint64(r.next.Body) != s.nonce):
		return damaged(0, "it is not the one that the segment before it refers to")
	}
	r.log.opts.ID = s.log
	r.log.bytes.Add(s.size)
	return r.frames(s, b, damaged)
}

// readSegment opens a segment and returns what the disk holds of it. The kernel first writes back and drops its own
// copy: after a failed fsync that may have what never got to the disk, and after a crash what a power cut would undo.
func readSegment(name string, trustCache bool) (*segment, []byte, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	if !trustCache {
		if err := f.Sync(); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("sync %s before reading it: %w", name, err), f.Close())
		}
		ForgetCached(f)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	b := make([]byte, info.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("read %s: %w", name, err), f.Close())
	}
	return &segment{f: f, name: name}, b, nil
}

func (r *reader) frames(s *segment, b []byte, damaged func(int64, string) error) error {
	r.next = Frame{}
	for at := int64(segmentHeader); ; {
		f := decode(b, s.nonce, at)
		switch {
		case f.state == flipped:
			return damaged(at, "a bit of the frame is flipped")
		case f.state == torn:
			if later := laterFrame(b, at, s.nonce); later >= 0 {
				return damaged(at, fmt.Sprintf("the frame does not match its checksum, and a later one stands at %d", later))
			}
			r.log.at = at
			return nil
		case r.begun && f.before != r.log.sum:
			return damaged(at, "it does not follow the frame before it")
		case f.group != 0:
			return fmt.Errorf("%s, offset %d: %w: a frame of group %d", s.name, at, ErrVersion, f.group)
		}
		p := Position{s, at}
		at += frameBytes(len(f.Body))
		r.begun, r.log.sum, r.log.at = true, f.sum, at
		var err error
		switch f.Kind {
		case Entries, Deletion:
			err = r.take(f.Frame, p)
		case head:
			r.oldest = f.Index
		case turn:
			if len(f.Body) == 8 {
				r.next = Frame{Kind: turn, Index: f.Index, Body: slices.Clone(f.Body)}
				return nil
			}
			err = errors.New("a turn without a nonce")
		default:
			err = fmt.Errorf("a frame of %v", f.Kind)
		}
		if err != nil {
			return damaged(p.at, err.Error())
		}
	}
}

// laterFrame returns where a whole frame of this use of the segment begins behind a place, -1 if
// none does.
func laterFrame(b []byte, after int64, nonce uint64) int64 {
	for at := after + alignment; at+frameHeader <= int64(len(b)); at += alignment {
		if binary.BigEndian.Uint64(b[at+24:]) == nonce && decode(b, nonce, at).state == whole {
			return at
		}
	}
	return -1
}
