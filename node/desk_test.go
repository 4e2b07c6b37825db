package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// desk is a small participant in memory that works: it knows what is prepared and
// how branches ended. A test can take it down, and end branches by hand.
type desk struct {
	mu       sync.Mutex
	prepared map[string]bool               // by XID
	ended    map[string]participant.Ending // by XID
	down     error                         // of every call, unless nil
	settled  []string
}

func newDesk() *desk {
	return &desk{prepared: make(map[string]bool), ended: make(map[string]participant.Ending)}
}

// prepare is what an application's session does.
func (d *desk) prepare(xid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.prepared[xid] = true
}

// byHand ends a branch as somebody would who does not ask the coordinator.
func (d *desk) byHand(xid string, e participant.Ending) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.prepared, xid)
	d.ended[xid] = e
}

// outage takes the desk down, or brings it up again with nil.
func (d *desk) outage(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = err
}

func (d *desk) settlements() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.settled)
}

func (d *desk) finish(b participant.Branch, e participant.Ending) (participant.Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down != nil {
		return participant.Result{}, d.down
	}
	if d.prepared[b.XID] {
		delete(d.prepared, b.XID)
		d.ended[b.XID] = e
	}
	if end := d.ended[b.XID]; end != 0 {
		return participant.Result{Ending: end, Detail: "the desk's own book"}, nil
	}
	if e == participant.RolledBack {
		return participant.Result{Ending: e, Detail: "never prepared"}, nil
	}
	return participant.Result{Ending: participant.Unknown, Detail: "not in the book"}, nil
}

func (d *desk) Commit(_ context.Context, b participant.Branch) (participant.Result, error) {
	return d.finish(b, participant.Committed)
}

func (d *desk) Rollback(_ context.Context, b participant.Branch) (participant.Result, error) {
	return d.finish(b, participant.RolledBack)
}

func (d *desk) Prepared(_ context.Context, prefix string) (ps []participant.Prepared, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for xid := range d.prepared {
		if strings.HasPrefix(xid, prefix) {
			ps = append(ps, participant.Prepared{XID: xid})
		}
	}
	return ps, d.down
}

func (d *desk) Check(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.down
}

func (*desk) Close() error { return nil }

// Inspect implements [participant.Inspector].
func (d *desk) Inspect(_ context.Context, b participant.Branch) (participant.Testimony, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down != nil {
		return participant.Testimony{}, d.down
	}
	if d.prepared[b.XID] {
		return participant.Testimony{Prepared: true, Detail: "in the tray", Locks: []string{"the tray"}}, nil
	}
	if end := d.ended[b.XID]; end != 0 {
		return participant.Testimony{Ending: end, Detail: "the desk's own book"}, nil
	}
	return participant.Testimony{Ending: participant.Unknown, Detail: "not in the book"}, nil
}

// Settle implements [participant.Settler]: what was not committed is rolled back.
func (d *desk) Settle(_ context.Context, b participant.Branch) (participant.Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down != nil {
		return participant.Result{}, d.down
	}
	d.settled = append(d.settled, b.XID)
	if d.ended[b.XID] == 0 {
		d.ended[b.XID] = participant.RolledBack
	}
	return participant.Result{Ending: d.ended[b.XID], Detail: "the desk's own book"}, nil
}

// voter is a desk that the coordinator asks for votes.
type voter struct {
	*desk
	vote func(ctx context.Context, b participant.Branch) (txn.Vote, string, error)
}

// Prepare implements [participant.Preparer].
func (v *voter) Prepare(ctx context.Context, b participant.Branch) (txn.Vote, string, error) {
	vote, why, err := v.vote(ctx, b)
	if err == nil && vote == txn.VotePrepared {
		v.prepare(b.XID)
	}
	return vote, why, err
}

// yesAfter votes yes when it has thought about it.
func yesAfter(d time.Duration) *voter {
	return &voter{newDesk(), func(ctx context.Context, _ participant.Branch) (txn.Vote, string, error) {
		select {
		case <-time.After(d):
			return txn.VotePrepared, "", nil
		case <-ctx.Done():
			return 0, "", ctx.Err()
		}
	}}
}

// refuses votes no.
func refuses(why string) *voter {
	return &voter{newDesk(), func(context.Context, participant.Branch) (txn.Vote, string, error) { return txn.VoteNo, why, nil }}
}

// hangs never votes.
func hangs() *voter {
	return &voter{newDesk(), func(ctx context.Context, _ participant.Branch) (txn.Vote, string, error) {
		<-ctx.Done()
		return 0, "", ctx.Err()
	}}
}

// with embeds participants in a node.
func with(ps map[string]participant.Participant) func(*Config) {
	return func(c *Config) { c.Participants = ps }
}

var errRefused = errors.New("connection refused")

// beginAt begins a transaction with a branch at each of the participants.
func beginAt(t *testing.T, n *Node, timeout time.Duration, names ...string) txn.Begun {
	t.Helper()
	o := txn.Options{Name: "order", Timeout: timeout}
	for _, name := range names {
		o.Branches = append(o.Branches, txn.Enlistment{Participant: name})
	}
	b, err := n.Begin(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// prepared are yes votes of the first branches.
func prepared(n int) (votes []txn.BranchVote) {
	for i := range n {
		votes = append(votes, txn.BranchVote{Branch: txn.BranchID(i + 1), Vote: txn.VotePrepared})
	}
	return votes
}

// wantErr checks an error's sentinels, and what its text says.
func wantErr(t *testing.T, what string, err error, want ...any) {
	t.Helper()
	for _, w := range want {
		switch w := w.(type) {
		case error:
			if !errors.Is(err, w) {
				t.Errorf("%s: %v; want %v", what, err, w)
			}
		case string:
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v; want a text with %q", what, err, w)
			}
		}
	}
}

// until polls, for things that tell nobody when they are so.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.After(time.Minute); !ok(); {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

func choice(e txn.Explanation, action string) txn.Choice {
	i := slices.IndexFunc(e.Choices, func(c txn.Choice) bool { return c.Action == action })
	if i < 0 {
		return txn.Choice{}
	}
	return e.Choices[i]
}
