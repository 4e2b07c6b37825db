package sim

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// service is a model of a web service with the barrier of package web: the coordinator calls it for
// its vote, and it keeps prepared branches in its database.
type service struct {
	server
	states map[string]webState
	since  map[string]time.Time
}

type webState uint8

const (
	webPrepared webState = iota + 1
	webCommitted
	webRolledBack
	webReadOnly
	webTyped // its own code has committed the work of prepare
)

func newService(w *World) *service {
	return &service{server: newServer(w, 2, "post"), states: map[string]webState{}, since: map[string]time.Time{}}
}

func (s *service) crash() { s.configure(func(s *server) { s.up = false }) }

func (s *service) start() { s.configure(func(s *server) { s.up = true }) }

// webClient is the coordinator's side, in one process of one node.
type webClient struct {
	s       *service
	process *process
}

func (s *service) participantFor(l *process) participant.Participant { return &webClient{s, l} }

var _ interface {
	participant.Participant
	participant.Preparer
	participant.Inspector
} = (*webClient)(nil)

// webVote is the answer to a prepare.
type webVote struct {
	vote   txn.Vote
	detail string
}

// vote prepares a branch. mu is held.
func (s *service) vote(b participant.Branch) webVote {
	switch s.states[b.XID] {
	case webRolledBack:
		s.w.countFault("post: prepare after its rollback")
		return webVote{txn.VoteNo, "rolled back already"}
	case webTyped:
		return webVote{txn.VoteEndedByApplication, "COMMIT was typed"}
	case webPrepared, webCommitted:
		return webVote{vote: txn.VotePrepared}
	case webReadOnly:
		return webVote{vote: txn.VoteReadOnly}
	}
	switch string(b.Payload) {
	case "no":
		s.states[b.XID] = webRolledBack
		return webVote{txn.VoteNo, "as asked for"}
	case "typed":
		s.w.countFault("post: ended by hand")
		s.states[b.XID] = webTyped
		s.effect(b.TX)
		return webVote{txn.VoteEndedByApplication, "COMMIT was typed"}
	case "look":
		s.states[b.XID] = webReadOnly
		return webVote{vote: txn.VoteReadOnly}
	}
	s.states[b.XID], s.since[b.XID] = webPrepared, time.Now()
	if s.w.plan.Bugs.ForgetPrepared && s.rng.oneIn(20) {
		delete(s.states, b.XID)
	}
	return webVote{vote: txn.VotePrepared}
}

// Prepare implements [participant.Preparer].
func (c *webClient) Prepare(ctx context.Context, b participant.Branch) (vote txn.Vote, detail string, err error) {
	v, err := exchange(ctx, &c.s.server, c.process, "prepare", func() (webVote, error) { return c.s.vote(b), nil })
	return v.vote, v.detail, err
}

// Commit implements [participant.Participant].
func (c *webClient) Commit(ctx context.Context, b participant.Branch) (participant.Result, error) {
	return exchange(ctx, &c.s.server, c.process, "commit "+b.XID+" by "+c.process.host.name, func() (r participant.Result, err error) {
		switch c.s.states[b.XID] {
		case webPrepared:
			c.s.states[b.XID] = webCommitted
			c.s.effect(b.TX)
			r.Outcome = participant.Committed
		case webCommitted:
			c.s.w.countFault("post: commit repeated")
			r.Outcome = participant.Committed
		case webRolledBack:
			r.Outcome = participant.RolledBack
		default:
			r.Outcome = participant.Unknown
		}
		return r, nil
	})
}

// Rollback implements [participant.Participant].
func (c *webClient) Rollback(ctx context.Context, b participant.Branch) (participant.Result, error) {
	return exchange(ctx, &c.s.server, c.process, "rollback "+b.XID+" by "+c.process.host.name, func() (participant.Result, error) {
		if s := c.s.states[b.XID]; s == webCommitted || s == webTyped {
			return participant.Result{Outcome: participant.Committed}, nil
		}
		c.s.states[b.XID] = webRolledBack // empty ones too: a later prepare is refused
		return participant.Result{Outcome: participant.RolledBack}, nil
	})
}

// Inspect implements [participant.Inspector].
func (c *webClient) Inspect(ctx context.Context, b participant.Branch) (participant.BranchReport, error) {
	return exchange(ctx, &c.s.server, c.process, "inspect", func() (t participant.BranchReport, err error) {
		switch c.s.states[b.XID] {
		case webPrepared:
			t.Prepared, t.Since = true, c.s.since[b.XID]
		case webCommitted, webTyped:
			t.Outcome = participant.Committed
		case webRolledBack:
			t.Outcome = participant.RolledBack
		}
		return t, nil
	})
}

// Prepared implements [participant.Participant].
func (c *webClient) Prepared(ctx context.Context, prefix string) ([]participant.Prepared, error) {
	return exchange(ctx, &c.s.server, c.process, "list", func() (list []participant.Prepared, err error) {
		for _, xid := range slices.Sorted(maps.Keys(c.s.states)) {
			if c.s.states[xid] == webPrepared && strings.HasPrefix(xid, prefix) {
				list = append(list, participant.Prepared{XID: xid, Since: c.s.since[xid]})
			}
		}
		return list, nil
	})
}

// Check implements [participant.Participant].
func (c *webClient) Check(ctx context.Context) error {
	return c.s.send(ctx, c.process, "check", func() error { return nil })
}

// Close implements [participant.Participant].
func (c *webClient) Close() error { return nil }
