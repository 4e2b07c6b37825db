package wal

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzOpen changes a few bytes of a segment in any way: Open neither panics nor gives out a frame that was not
// written.
func FuzzOpen(f *testing.F) {
	from := f.TempDir()
	l, err := Open(from, Options{}, nil)
	if err != nil {
		f.Fatal(err)
	}
	var want []Frame
	for i := range 5 {
		want = append(want, Frame{Kind: Entries, Index: uint64(i), Body: body(100*i, byte(i))})
		if _, err := l.Append(want[i]); err != nil {
			f.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		f.Fatal(err)
	}
	file, err := os.ReadFile(segmentName(from, 1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(600, []byte{1, 2, 3})
	f.Add(segmentHeader, make([]byte, 200))
	f.Fuzz(func(t *testing.T, at int, patch []byte) {
		b := append([]byte(nil), file...)
		if at >= 0 && at < len(b) {
			copy(b[at:], patch)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(segmentName(dir, 1))), b, 0o600); err != nil {
			t.Fatal(err)
		}
		l, all, err := tryOpen(dir, Options{})
		if err != nil {
			return
		}
		if n := len(all); n > len(want) || !same(want[:n], all) {
			t.Errorf("%d frames, or others", n)
		}
		closeLog(t, l)
	})
}
