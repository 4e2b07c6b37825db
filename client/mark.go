package client

import (
	"errors"
	"sync"

	"github.com/txmgr/txmgr/txn"
)

// latestMark is the latest mark that a coordinator has returned. The log has surely reached
// it, whichever node returned it.
type latestMark struct {
	mu   sync.Mutex
	mark txn.Mark // guarded by mu
}

func (l *latestMark) latest() txn.Mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mark
}

// update takes the mark of the response to a begin. Another incarnation of the cluster counts
// ticks anew; a late response of the former one costs at most one refused begin.
func (l *latestMark) update(b txn.BeginResult, err error) {
	m := b.Mark
	if e := (*txn.Error)(nil); errors.As(err, &e) {
		m = e.Mark
	}
	if m.IsZero() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.Epoch != l.mark.Epoch || m.Tick > l.mark.Tick || err != nil {
		l.mark = m
	}
}
