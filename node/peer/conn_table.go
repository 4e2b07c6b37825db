package peer

import (
	"fmt"
	"sync"

	"github.com/txmgr/txmgr/txn"
)

// connTable holds the connections whose other side has identified itself, up to maxConns that the other
// side dialed. The zero value is empty.
type connTable struct {
	mu           sync.Mutex // guards all below
	refusing     bool
	refusingRaft bool
	conns        map[*conn]bool // accepted or dialed
	accepted     int            // how many of them the other side dialed
}

// add makes the table responsible for the connection. It precedes the check whether the other node is
// admitted, so that Reauthorize finds a node that is removed in between.
func (t *connTable) add(c *conn) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.refusing || c.kind == frameRaft && t.refusingRaft:
		return errClosed
	case c.accepted && t.accepted >= maxConns:
		return fmt.Errorf("%w: %d nodes or more are connected already", txn.ErrUnavailable, maxConns)
	}
	if t.conns == nil {
		t.conns = map[*conn]bool{}
	}
	t.conns[c] = true
	if c.accepted {
		t.accepted++
	}
	return nil
}

func (t *connTable) remove(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conns[c] {
		delete(t.conns, c)
		if c.accepted {
			t.accepted--
		}
	}
}

func (t *connTable) list(which func(*conn) bool) []*conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []*conn
	for c := range t.conns {
		if which(c) {
			list = append(list, c)
		}
	}
	return list
}

// setIdentity records the identity of the other side.
func (t *connTable) setIdentity(c *conn, other Identity) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.other = other
}

// identified returns the connections whose other side is known, with its identity.
func (t *connTable) identified() map[*conn]Identity {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := map[*conn]Identity{}
	for c := range t.conns {
		if c.other.ID != "" {
			known[c] = c.other
		}
	}
	return known
}

// refuse adds no connection any more.
func (t *connTable) refuse() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refusing = true
}

// refuseRaft adds no raft stream any more.
func (t *connTable) refuseRaft() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refusingRaft = true
}
