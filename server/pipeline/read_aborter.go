package pipeline

import (
	"net/http"
	"sync"
	"time"
)

// ReadAborter lets another goroutine end the reading of a request's body while the handler
// runs; afterwards the request belongs to net/http again.
type ReadAborter struct {
	mu sync.Mutex
	rc *http.ResponseController // nil when the handler has returned
}

// NewReadAborter makes an aborter for the request that rc controls.
func NewReadAborter(rc *http.ResponseController) *ReadAborter { return &ReadAborter{rc: rc} }

// Abort ends the reading, if the request's handler has not returned.
func (i *ReadAborter) Abort() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.rc != nil {
		_ = i.rc.SetReadDeadline(time.Unix(1, 0)) // every HTTP/2 stream can
	}
}

// Release is to be called when the handler returns.
func (i *ReadAborter) Release() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rc = nil
}
