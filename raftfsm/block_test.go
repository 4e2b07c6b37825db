package raftfsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestBlocksAtTheirSizes: a block of every size around the step in which it is read, and
// around the limits, is read as it was written.
func TestBlocksAtTheirSizes(t *testing.T) {
	for _, size := range []int{0, 1, blockTarget, readStep - 1, readStep, readStep + 1, 2*readStep - 1, 2 * readStep, 2*readStep + 1} {
		var file bytes.Buffer
		w := newBlockWriter(&file)
		body := bytes.Repeat([]byte{0xA5}, size)
		for i := range body {
			body[i] += byte(i >> 10)
		}
		w.buf = append(w.buf, body...)
		if err := w.flush(blockAudit); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if file.Len() != blockHeadSize+size || len(w.buf) != blockHeadSize {
			t.Errorf("%d bytes take %d, and %d are left", size, file.Len(), len(w.buf)-blockHeadSize)
		}
		kind, got, err := newBlockReader(&file).next()
		if kind != blockAudit || !bytes.Equal(got, body) || err != nil {
			t.Errorf("%d bytes: kind %d, %d bytes, %v", size, kind, len(got), err)
		}
		if file.Len() != 0 {
			t.Errorf("%d bytes: %d are left over", size, file.Len())
		}
	}
}

// TestABlockIsReadInSteps: a length that was read costs one step of memory before the
// bytes have come.
func TestABlockIsReadInSteps(t *testing.T) {
	head := make([]byte, blockHeadSize)
	head[0] = blockHeader
	binary.LittleEndian.PutUint32(head[1:], maxBlock)
	r := newBlockReader(bytes.NewReader(head))
	if _, _, err := r.next(); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("a block of the largest size that is cut short: %v", err)
	}
	if cap(r.buf) > 2*(blockHeadSize+readStep) {
		t.Errorf("%d bytes were reserved for a body of which none has come", cap(r.buf))
	}
	binary.LittleEndian.PutUint32(head[1:], maxBlock+1)
	if _, _, err := newBlockReader(bytes.NewReader(head)).next(); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "at most") {
		t.Errorf("a block that is too large: %v", err)
	}
}

// TestBlocksAreCutWhenTheyAreFull: not before, and an oversized block's buffer is released.
func TestBlocksAreCutWhenTheyAreFull(t *testing.T) {
	var file bytes.Buffer
	w := newBlockWriter(&file)
	if err := w.flushRest(blockAudit); err != nil || file.Len() != 0 {
		t.Errorf("%d bytes are written of an empty block, %v", file.Len(), err)
	}
	w.buf = append(w.buf, make([]byte, blockTarget-blockHeadSize-1)...)
	if err := w.flushFull(blockAudit); err != nil || file.Len() != 0 {
		t.Errorf("%d bytes are written of a block that is not full, %v", file.Len(), err)
	}
	w.buf = append(w.buf, 1)
	if err := w.flushFull(blockAudit); err != nil || file.Len() != blockTarget {
		t.Errorf("%d bytes are written of a full block, %v; want %d", file.Len(), err, blockTarget)
	}
	w.buf = append(w.buf, 1)
	if err := w.flushRest(blockAudit); err != nil || file.Len() != blockTarget+blockHeadSize+1 {
		t.Errorf("%d bytes in all, with the rest, %v", file.Len(), err)
	}
	for room, kept := range map[int]bool{4 * blockTarget: true, 4*blockTarget + 1: false} {
		w.buf = make([]byte, blockHeadSize+1, room)
		if err := w.flush(blockAudit); err != nil || (cap(w.buf) == room) != kept {
			t.Errorf("of room for %d bytes %d are kept, %v", room, cap(w.buf), err)
		}
	}
	w = newBlockWriter(io.Discard)
	w.buf = make([]byte, blockHeadSize+maxBlock+1)
	if err := w.flush(blockAudit); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a block that is too large is written: %v", err)
	}
	w.buf = w.buf[:blockHeadSize+maxBlock]
	if err := w.flush(blockAudit); err != nil {
		t.Errorf("the largest block: %v", err)
	}
}
