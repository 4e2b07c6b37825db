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
	"github.com/txmgr/txmgr/txn/admin"
)

// fakeParticipant is a small working participant in memory: it knows which branches are prepared
// and how branches ended. A test can make it unavailable, and end branches by hand.
type fakeParticipant struct {
	mu       sync.Mutex
	prepared map[string]bool                      // by XID
	ended    map[string]participant.BranchOutcome // by XID
	down     error                                // returned by every call, unless nil
	settled  []string
}

func newFakeParticipant() *fakeParticipant {
	return &fakeParticipant{prepared: make(map[string]bool), ended: make(map[string]participant.BranchOutcome)}
}

// prepare prepares a branch, as the application's resource does.
func (d *fakeParticipant) prepare(xid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.prepared[xid] = true
}

// byHand ends a branch outside the protocol.
func (d *fakeParticipant) byHand(xid string, e participant.BranchOutcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.prepared, xid)
	d.ended[xid] = e
}

// outage makes the participant fail every call with err, or none if err is nil.
func (d *fakeParticipant) outage(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = err
}

func (d *fakeParticipant) outcomeLookups() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.settled)
}

func (d *fakeParticipant) finish(b participant.Branch, e participant.BranchOutcome) (participant.Result, error) {
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
		return participant.Result{Outcome: end, Detail: "the desk's own book"}, nil
	}
	if e == participant.RolledBack {
		return participant.Result{Outcome: e, Detail: "never prepared"}, nil
	}
	return participant.Result{Outcome: participant.Unknown, Detail: "not in the book"}, nil
}

func (d *fakeParticipant) Commit(_ context.Context, b participant.Branch) (participant.Result, error) {
	return d.finish(b, participant.Committed)
}

func (d *fakeParticipant) Rollback(_ context.Context, b participant.Branch) (participant.Result, error) {
	return d.finish(b, participant.RolledBack)
}

func (d *fakeParticipant) Prepared(_ context.Context, prefix string) (ps []participant.Prepared, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for xid := range d.prepared {
		if strings.HasPrefix(xid, prefix) {
			ps = append(ps, participant.Prepared{XID: xid})
		}
	}
	return ps, d.down
}

func (d *fakeParticipant) Check(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.down
}

func (*fakeParticipant) Close() error { return nil }

// Inspect implements [participant.Inspector].
func (d *fakeParticipant) Inspect(_ context.Context, b participant.Branch) (participant.BranchReport, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down != nil {
		return participant.BranchReport{}, d.down
	}
	if d.prepared[b.XID] {
		return participant.BranchReport{Prepared: true, Detail: "in the tray", Locks: []string{"the tray"}}, nil
	}
	if end := d.ended[b.XID]; end != 0 {
		return participant.BranchReport{Outcome: end, Detail: "the desk's own book"}, nil
	}
	return participant.BranchReport{Outcome: participant.Unknown, Detail: "not in the book"}, nil
}

// ResolveOutcome implements [participant.OutcomeResolver]: a branch that was not committed is
// rolled back, but not one that is prepared.
func (d *fakeParticipant) ResolveOutcome(_ context.Context, b participant.Branch) (participant.Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down != nil {
		return participant.Result{}, d.down
	}
	d.settled = append(d.settled, b.XID)
	if d.prepared[b.XID] {
		return participant.Result{}, errors.New("is prepared, and waits to be told")
	}
	if d.ended[b.XID] == 0 {
		d.ended[b.XID] = participant.RolledBack
	}
	return participant.Result{Outcome: d.ended[b.XID], Detail: "the desk's own book"}, nil
}

// ReadOutcome implements [participant.OutcomeReader].
func (d *fakeParticipant) ReadOutcome(_ context.Context, b participant.Branch) (participant.Result, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	end := d.ended[b.XID]
	return participant.Result{Outcome: end, Detail: "the desk's own book"}, d.down == nil && end != 0, d.down
}

// holds reports whether a branch is prepared.
func (d *fakeParticipant) holds(xid string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.prepared[xid]
}

// voter is a fakeParticipant that the coordinator asks for votes.
type voter struct {
	*fakeParticipant
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

// yesAfter votes yes after a delay.
func yesAfter(d time.Duration) *voter {
	return &voter{newFakeParticipant(), func(ctx context.Context, _ participant.Branch) (txn.Vote, string, error) {
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
	return &voter{newFakeParticipant(), func(context.Context, participant.Branch) (txn.Vote, string, error) { return txn.VoteNo, why, nil }}
}

// hangs never votes.
func hangs() *voter {
	return &voter{newFakeParticipant(), func(ctx context.Context, _ participant.Branch) (txn.Vote, string, error) {
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
func beginAt(t *testing.T, n *Node, timeout time.Duration, names ...string) txn.BeginResult {
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

func choice(e admin.Explanation, action string) admin.Action {
	i := slices.IndexFunc(e.Actions, func(c admin.Action) bool { return c.Name == action })
	if i < 0 {
		return admin.Action{}
	}
	return e.Actions[i]
}
