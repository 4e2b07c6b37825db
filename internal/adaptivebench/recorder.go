package adaptivebench

import (
	"sync"
	"time"

	"github.com/txmgr/txmgr/adaptive"
)

// recorder counts how long requests took. Its methods are for many goroutines.
type recorder struct {
	mu            sync.Mutex // guards the rest
	server, users *adaptive.Histogram
	answered      uint64
}

func newRecorder() *recorder {
	return &recorder{server: &adaptive.Histogram{}, users: &adaptive.Histogram{}}
}

// atServer counts a request that the server has answered.
func (r *recorder) atServer(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.server.Record(d)
	r.answered++
}

// atUser counts an answer that a user has read.
func (r *recorder) atUser(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users.Record(d)
}

// take gives what was counted since it was called last.
func (r *recorder) take() (server, users *adaptive.Histogram) {
	r.mu.Lock()
	defer r.mu.Unlock()
	server, users = r.server, r.users
	r.server, r.users = &adaptive.Histogram{}, &adaptive.Histogram{}
	return server, users
}

// total is how many requests the server has answered since the beginning.
func (r *recorder) total() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answered
}
