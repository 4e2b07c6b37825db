package participanttest

import (
	"context"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// maxLines is the largest number of lines in a list for the operator.
const maxLines = 20

func (b *fixture) inspect(br participant.Branch) participant.BranchReport {
	b.t.Helper()
	t, err := b.p.(participant.Inspector).Inspect(b.t.Context(), br)
	if err != nil {
		b.t.Fatalf("inspect: %v", err)
	}
	if t.Detail == "" {
		b.t.Errorf("it is not said how it is known: %v", t)
	}
	b.wantLines(t.Locks)
	b.wantLines(t.Waiters)
	return t
}

func (b *fixture) wantLines(lines []string) {
	b.t.Helper()
	if len(lines) > maxLines {
		b.t.Errorf("%d lines", len(lines))
	}
}

func (b *fixture) wantInspected(br participant.Branch, endings ...participant.BranchOutcome) {
	b.t.Helper()
	t := b.inspect(br)
	for _, e := range endings {
		if t.Outcome == e && !t.Prepared {
			return
		}
	}
	b.t.Errorf("%v; want one of %v", t, endings)
}

// open is no outcome: prepared, or still at work.
const open participant.BranchOutcome = 0

func inspectPrepared(b *fixture) {
	br, key := b.prepared()
	for range 2 {
		t := b.inspect(br)
		if !t.Prepared || t.Outcome != open || len(t.Locks) == 0 || t.Since.IsZero() || time.Since(t.Since).Abs() > time.Hour {
			b.t.Errorf("%+v", t)
		}
	}
	b.wantListed("", br.XID, true)
	b.want(b.p.Commit, br, committed)
	b.wantInspected(br, committed, unknown)
	b.wantValue(key, 7)
}

func inspectEnded(b *fixture) {
	for _, commit := range []bool{true, false} {
		end := rolledBack
		if commit {
			end = committed
		}
		br, _ := b.prepared()
		b.FinishManually(b.t, br.XID, commit)
		b.wantInspected(br, end, unknown)
	}
	br, _ := b.prepared()
	b.want(b.p.Rollback, br, rolledBack)
	b.wantInspected(br, rolledBack, unknown)
}

// inspectOpen: inspecting does not disturb the connection.
func inspectOpen(b *fixture) {
	br, key := b.branch()
	b.wantInspected(br, open, rolledBack, unknown) // not begun
	s, info := b.Work(b.t, br.XID, key, 7)
	defer s.Release()
	br.SessionRef = info
	b.wantInspected(br, open, unknown)
	vote, err := s.Prepare(b.t.Context())
	if vote != txn.VotePrepared {
		b.t.Fatal(vote, err)
	}
	if err := s.Commit(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	b.wantInspected(br, committed, unknown)
	b.wantValue(key, 7)
}

func (b *fixture) inspectLocks() map[string]participant.PreparedDetails {
	b.t.Helper()
	list, err := b.p.(participant.LockInspector).InspectLocks(b.t.Context())
	if err != nil {
		b.t.Fatalf("survey: %v", err)
	}
	all := map[string]participant.PreparedDetails{}
	for _, h := range list {
		if _, twice := all[h.XID]; twice {
			b.t.Errorf("%s is listed twice", h.XID)
		}
		b.wantLines(h.Locks)
		b.wantLines(h.Waiters)
		all[h.XID] = h
	}
	return all
}

// inspectAllLocks lists branches of other owners, too, and changes nothing.
func inspectAllLocks(b *fixture) {
	own, _ := b.prepared()
	other, key := b.branch()
	other.XID = txn.XID(b.Cluster+"x", other.TX, other.ID)
	b.prepare(&other, key)
	strange, key := b.branch()
	strange.XID = fmt.Sprintf("another owner's %d", number.Load())
	b.prepare(&strange, key)
	for range 2 {
		all := b.inspectLocks()
		for _, br := range []participant.Branch{own, other, strange} {
			h, listed := all[br.XID]
			if !listed || h.Orphaned || len(h.Locks) == 0 || h.Since.IsZero() && h.Owner == "" {
				b.t.Errorf("%s: listed %v: %+v", br.XID, listed, h)
			}
		}
	}
	b.want(b.p.Commit, own, committed)
	b.FinishManually(b.t, other.XID, false)
	b.FinishManually(b.t, strange.XID, false)
	for xid := range b.inspectLocks() {
		if xid == own.XID || xid == other.XID || xid == strange.XID {
			b.t.Errorf("%s is listed after its end", xid)
		}
	}
}

// inspectWaiters: what waits for a prepared branch is reported, where waiting is possible.
func inspectWaiters(b *fixture) {
	br, key := b.prepared()
	other, _ := b.prepared()
	ctx, cancel := context.WithTimeout(b.t.Context(), Patience)
	defer cancel()
	wrote := make(chan error, 1)
	go func() { wrote <- b.Write(ctx, key, 8) }()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	waits := true
	for waiting := true; waiting; {
		select {
		case <-wrote:
			waits, waiting = false, false
			if ctx.Err() != nil {
				b.t.Errorf("a waiter waited %v without being reported", Patience)
			}
		case <-again.C:
			all := b.inspectLocks()
			if len(all[other.XID].Waiters) > 0 {
				b.t.Errorf("a waiter waits for the wrong branch: %v", all[other.XID].Waiters)
			}
			waiting = len(all[br.XID].Waiters) == 0
		}
	}
	if i, ok := b.p.(participant.Inspector); ok && waits {
		if t, err := i.Inspect(b.t.Context(), br); err != nil || len(t.Waiters) == 0 {
			b.t.Errorf("who waits is not told: %v, %v", t, err)
		}
	}
	b.want(b.p.Rollback, br, rolledBack)
	b.want(b.p.Rollback, other, rolledBack)
	if waits {
		if err := <-wrote; err != nil {
			b.t.Errorf("who waited got %v", err)
		}
		b.wantValue(key, 8)
	}
}
