package client

import (
	"errors"
	"sync"

	"github.com/txmgr/txmgr/txn"
)

// latestMark is the latest mark that a coordinator has answered with. It is known to have
// been reached by the log, whichever node said so.
type latestMark struct {
	mu   sync.Mutex
	mark txn.Mark // guarded by mu
}

func (l *latestMark) latest() txn.Mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mark
}

// update takes the mark of an answer to a begin. In another life of the cluster ticks count
// anew; an answer of the former one that comes late costs a refused begin at most.
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
	if m.Incarnation != l.mark.Incarnation || m.Tick > l.mark.Tick || err != nil {
		l.mark = m
	}
}
