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

// service is a model of a web service with the barrier of package web: it is asked
// for its vote by the coordinator, and keeps what it has promised in its database.
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
)

func newService(w *World) *service {
	return &service{server: newServer(w, 2, "post"), states: map[string]webState{}, since: map[string]time.Time{}}
}

func (s *service) crash() { s.bad(func(s *server) { s.up = false }) }

func (s *service) start() { s.bad(func(s *server) { s.up = true }) }

// webClient is the coordinator's side, on one life of one node.
type webClient struct {
	s    *service
	life *life
}

func (s *service) seenBy(l *life) participant.Participant { return &webClient{s, l} }

var _ interface {
	participant.Participant
	participant.Preparer
	participant.Inspector
} = (*webClient)(nil)

// Prepare implements [participant.Preparer].
func (c *webClient) Prepare(ctx context.Context, b participant.Branch) (vote txn.Vote, detail string, err error) {
	err = c.s.exchange(ctx, c.life, "prepare", func() error {
		switch c.s.states[b.XID] {
		case webRolledBack:
			vote, detail = txn.VoteNo, "rolled back already"
			c.s.w.fire("post: prepare after its rollback")
			return nil
		case webPrepared, webCommitted:
			vote = txn.VotePrepared
			return nil
		case webReadOnly:
			vote = txn.VoteReadOnly
			return nil
		}
		switch string(b.Payload) {
		case "no":
			c.s.states[b.XID], vote, detail = webRolledBack, txn.VoteNo, "as asked for"
		case "look":
			c.s.states[b.XID], vote = webReadOnly, txn.VoteReadOnly
		default:
			c.s.states[b.XID], c.s.since[b.XID], vote = webPrepared, time.Now(), txn.VotePrepared
			if c.s.w.plan.Bugs.Forgetful && c.s.dice.one(20) {
				delete(c.s.states, b.XID)
			}
		}
		return nil
	})
	if err != nil {
		return 0, "", err
	}
	return vote, detail, nil
}

// Commit implements [participant.Participant].
func (c *webClient) Commit(ctx context.Context, b participant.Branch) (r participant.Result, err error) {
	err = c.s.exchange(ctx, c.life, "commit "+b.XID+" by "+c.life.host.name, func() error {
		switch c.s.states[b.XID] {
		case webPrepared:
			c.s.states[b.XID] = webCommitted
			c.s.effect(b.TX)
			r.Ending = participant.Committed
		case webCommitted:
			c.s.w.fire("post: commit repeated")
			r.Ending = participant.Committed
		case webRolledBack:
			r.Ending = participant.RolledBack
		default:
			r.Ending = participant.Unknown
		}
		return nil
	})
	if err != nil {
		return participant.Result{}, err
	}
	return r, nil
}

// Rollback implements [participant.Participant].
func (c *webClient) Rollback(ctx context.Context, b participant.Branch) (r participant.Result, err error) {
	err = c.s.exchange(ctx, c.life, "rollback "+b.XID+" by "+c.life.host.name, func() error {
		switch c.s.states[b.XID] {
		case webCommitted:
			r.Ending = participant.Committed
		default:
			c.s.states[b.XID] = webRolledBack // empty ones too: a prepare that comes later is refused
			r.Ending = participant.RolledBack
		}
		return nil
	})
	if err != nil {
		return participant.Result{}, err
	}
	return r, nil
}

// Inspect implements [participant.Inspector].
func (c *webClient) Inspect(ctx context.Context, b participant.Branch) (t participant.Testimony, err error) {
	err = c.s.exchange(ctx, c.life, "inspect", func() error {
		switch c.s.states[b.XID] {
		case webPrepared:
			t.Prepared, t.Since = true, c.s.since[b.XID]
		case webCommitted:
			t.Ending = participant.Committed
		case webRolledBack:
			t.Ending = participant.RolledBack
		}
		return nil
	})
	if err != nil {
		return participant.Testimony{}, err
	}
	return t, nil
}

// Prepared implements [participant.Participant].
func (c *webClient) Prepared(ctx context.Context, prefix string) (list []participant.Prepared, err error) {
	err = c.s.exchange(ctx, c.life, "list", func() error {
		for _, xid := range slices.Sorted(maps.Keys(c.s.states)) {
			if c.s.states[xid] == webPrepared && strings.HasPrefix(xid, prefix) {
				list = append(list, participant.Prepared{XID: xid, Since: c.s.since[xid]})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Check implements [participant.Participant].
func (c *webClient) Check(ctx context.Context) error {
	return c.s.exchange(ctx, c.life, "check", func() error { return nil })
}

// Close implements [participant.Participant].
func (c *webClient) Close() error { return nil }
