package adaptivebench

import (
	"sync"
	"time"
)

// recorder counts how long requests took. Its methods are for many goroutines.
type recorder struct {
	mu       sync.Mutex // guards the rest
	now      *tally
	answered uint64
}

func newRecorder() *recorder { return &recorder{now: new(tally)} }

// atServer counts a request that the server has answered.
func (r *recorder) atServer(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.server.Record(d)
	r.answered++
}

// atUser counts an answer that a user has read.
func (r *recorder) atUser(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.users.Record(d)
}

// take returns what was counted since the last take.
func (r *recorder) take() *tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.now
	r.now = new(tally)
	return t
}

// total is how many requests the server has answered since the beginning.
func (r *recorder) total() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answered
}
