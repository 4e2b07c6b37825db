// Package tailbuf keeps the end of another program's output, for the error that reports how it
// ended. Use a [Buffer] as the program's standard error.
package tailbuf

import (
	"bytes"
	"sync"
)

// Size is the number of bytes kept.
const Size = 4 << 10

// Buffer keeps the last [Size] bytes written to it. The zero Buffer is empty. It
// is safe for concurrent use.
type Buffer struct {
	mu   sync.Mutex
	text []byte // guarded by mu; at most Size bytes
}

// Write implements [io.Writer]. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	if n := len(b.text) - Size; n > 0 {
		b.text = append(b.text[:0], b.text[n:]...)
	}
	return len(p), nil
}

// String returns the kept text as the end of an error: "it said:" and the lines, or that there are
// none.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := bytes.TrimSpace(b.text)
	if len(text) == 0 {
		return "it said nothing"
	}
	return "it said:\n" + string(text)
}
