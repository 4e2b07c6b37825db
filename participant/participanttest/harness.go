package participanttest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// Patience bounds every wait of the suite.
const Patience = 30 * time.Second

// Harness is a participant under test, with its application, its operator and its other users.
type Harness struct {
	// Cluster is the cluster id for which Open opens.
	Cluster string
	// Open opens the coordinator's side. It is called several times; the suite closes what it
	// returns.
	Open func(t *testing.T) participant.Participant
	// Work opens a resource of the application, sets the key through it to the value and leaves
	// it unprepared, to be prepared as xid. info is what the application would give as
	// SessionRef of a [txn.Enlistment].
	Work func(t *testing.T, xid, key string, value int64) (s txn.Resource, info string)
	// Write sets a key in a local transaction of the participant. It fails when the key is
	// locked until ctx ends, or at once.
	Write func(ctx context.Context, key string, value int64) error
	// Read returns the committed value of a key; zero when it was never set.
	Read func(t *testing.T, key string) int64
	// FinishManually does what an operator with the participant's own tools would do.
	FinishManually func(t *testing.T, xid string, commit bool)
	// Restart crashes the participant and starts it again.
	Restart func(t *testing.T)
}

// fixture is one running test.
type fixture struct {
	Harness
	t *testing.T
	p participant.Participant
}

var number atomic.Int64

// entropy makes ids that no other test of this process, and most likely none of
// another, has.
var entropy = func() (b [9]byte) {
	copy(b[:], fmt.Sprint(time.Now().UnixNano()%1e9))
	return b
}()

func newFixture(t *testing.T, h Harness) *fixture {
	b := &fixture{Harness: h, t: t}
	b.p = b.open()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		p := h.Open(t)
		left, err := p.Prepared(ctx, txn.ClusterPrefix(h.Cluster))
		if err = errors.Join(err, p.Close()); err != nil || len(left) != 0 {
			t.Errorf("left prepared: %v, %v", left, err)
		}
	})
	return b
}

func (b *fixture) open() participant.Participant {
	b.t.Helper()
	p := b.Open(b.t)
	b.t.Cleanup(func() {
		if err := p.Close(); err != nil {
			b.t.Errorf("close: %v", err)
		}
	})
	return p
}

// branch returns a new branch of a new transaction, and a key of its own.
func (b *fixture) branch() (participant.Branch, string) {
	n := number.Add(1)
	id := txn.NewID(time.UnixMilli(1700000000000+n), entropy)
	return participant.Branch{TX: id, ID: 1, XID: txn.XID(b.Cluster, id, 1)}, fmt.Sprintf("key%d", n)
}

// prepared is a branch that set its key to 7 and voted yes, and whose resource was released.
func (b *fixture) prepared() (participant.Branch, string) {
	b.t.Helper()
	br, key := b.branch()
	b.prepare(&br, key)
	return br, key
}

func (b *fixture) prepare(br *participant.Branch, key string) {
	b.t.Helper()
	s, info := b.Work(b.t, br.XID, key, 7)
	defer s.Release()
	vote, err := s.Prepare(b.t.Context())
	if vote != txn.VotePrepared || err != nil {
		b.t.Fatalf("prepare: %v, %v", vote, err)
	}
	br.Vote, br.SessionRef = vote, info
}

// call is Commit or Rollback of a participant.
type call func(context.Context, participant.Branch) (participant.Result, error)

// drive repeats a call until it answers, as the coordinator does.
func (b *fixture) drive(do call, br participant.Branch) participant.BranchOutcome {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), Patience)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		r, err := do(ctx, br)
		if err == nil {
			return r.Outcome
		}
		if none := (*participant.NoEffectError)(nil); !errors.As(err, &none) {
			br.Attempts++
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			b.t.Errorf("no answer within %v: %v", Patience, err)
			return 0
		}
	}
}

func (b *fixture) want(do call, br participant.Branch, endings ...participant.BranchOutcome) {
	b.t.Helper()
	got := b.drive(do, br)
	for _, e := range endings {
		if got == e {
			return
		}
	}
	b.t.Errorf("ended as %v, want %v", got, endings)
}

func (b *fixture) wantValue(key string, want int64) {
	b.t.Helper()
	if got := b.Read(b.t, key); got != want {
		b.t.Errorf("%s is %d, want %d", key, got, want)
	}
}

func (b *fixture) wantListed(prefix, xid string, want bool) {
	b.t.Helper()
	list, err := b.p.Prepared(b.t.Context(), prefix)
	if err != nil {
		b.t.Fatal(err)
	}
	got := false
	for _, p := range list {
		got = got || p.XID == xid
	}
	if got != want {
		b.t.Errorf("%s listed under %s: %v, want %v: %v", xid, prefix, got, want, list)
	}
}

// write tries a write of another transaction.
func (b *fixture) write(key string, value int64, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	return b.Write(ctx, key, value)
}
