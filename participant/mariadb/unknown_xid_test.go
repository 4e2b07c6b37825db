package mariadb

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/txmgr/txmgr/participant"
)

// TestUnknownXIDIsNoOutcome: MariaDB answers XAER_NOTA, unknown XID, also for a branch that is
// prepared, as long as the connection that prepared it exists. It says nothing about the outcome.
func TestUnknownXIDIsNoOutcome(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	r.skipDisconnect = true // sends XA COMMIT without reading INNODB_TRX
	br := newName()
	w := bank.work(t, br.XID, "INSERT INTO account VALUES ('alice', 1)")
	vote, err := w.Prepare(t.Context())
	check(t, err)
	br.Vote, br.SessionRef = vote, w.sessionRef.String()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if res, err := r.Commit(ctx, br); !errors.Is(err, errBoundElsewhere) {
		t.Errorf("a commit while the connection exists: %v, %v", res, err)
	}
	r.skipDisconnect = false
	w.Release()
	bank.waitGone(t, w.sessionRef.Conn)
	res, err := r.Commit(t.Context(), br)
	wantEnd(t, res, err, participant.Committed)
	if n := bank.balance(t, "alice"); n != 1 {
		t.Errorf("alice has %d", n)
	}
}
