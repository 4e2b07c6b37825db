package recoverylog

import (
	"context"
	"errors"
	"testing"

	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// TestLookupOfADeposedLeader: what was read when another leader may have written is not used, although this node led
// when it was asked.
func TestLookupOfADeposedLeader(t *testing.T) {
	term := uint64(3)
	m := machine.New()
	l := &Log{
		Term:            func() uint64 { return term },
		RequireReadable: func(context.Context) error { return nil },
		View:            func(read func(*machine.Machine)) { read(m) },
	}
	keys := []recovery.Key{{}}
	if known, err := l.Lookup(t.Context(), keys); err != nil || len(known) != 1 {
		t.Errorf("a leader: %v, %v", known, err)
	}
	l.View = func(read func(*machine.Machine)) {
		term++ // an entry of the next leader is applied
		read(m)
	}
	if known, err := l.Lookup(t.Context(), keys); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("deposed: %v, %v", known, err)
	}
}
