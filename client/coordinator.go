package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// List returns the transactions that match a filter.
func (c *Client) List(ctx context.Context, f admin.Filter) ([]txn.Info, error) {
	var res *txmgrv1.ListResponse
	err := c.longCall(ctx, "list", txn.ID{}, func(ctx context.Context, e *endpoint) (err error) {
		res, err = e.transactions.List(ctx, wire.FromFilter(f))
		return err
	})
	if err != nil {
		return nil, err
	}
	infos := make([]txn.Info, len(res.GetTransactions()))
	for n, t := range res.GetTransactions() {
		if infos[n], err = infoOf("list", txn.ID{}, t); err != nil {
			return nil, err
		}
	}
	return infos, nil
}

// Watch yields changes of state from now on, until ctx ends or the loop is left. Without an
// error the loop ends only after ctx has ended, whose error says why. A lost connection ends
// it with an error, which is the last element: a new watch may have missed events in between.
func (c *Client) Watch(ctx context.Context, f admin.Filter) iter.Seq2[admin.Event, error] {
	return func(yield func(admin.Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.ctx, cancel)()
		e, n := c.currentEndpoint()
		fail := func(err error) {
			switch err = c.handleTryError(e, n, true, err); {
			case c.ctx.Err() != nil:
				err = errClosed
			case ctx.Err() != nil, watchTimedOut(ctx, err):
				return
			case isTransportError(err):
				err = fmt.Errorf("%w: %w", txn.ErrUnavailable, err)
			}
			yield(admin.Event{}, finalError("watch", txn.ID{}, err))
		}
		s, err := e.streams.Watch(ctx, wire.FromFilter(f))
		if err != nil {
			fail(err)
			return
		}
		defer s.Close()
		for s.Receive() {
			event, err := wire.ToEvent(s.Msg())
			if err != nil {
				yield(admin.Event{}, newError("watch", txn.ID{}, err))
				return
			}
			if !yield(event, nil) {
				return
			}
		}
		err = s.Err()
		if err == nil {
			err = &transportError{base: e.base, err: errors.New("the server ended the stream")}
		}
		fail(err)
	}
}

// watchTimedOut reports whether the server ended a watch at the deadline of ctx, and then
// waits for ctx: the server gets the deadline in whole milliseconds, and so ends the watch up
// to one millisecond before.
func watchTimedOut(ctx context.Context, err error) bool {
	until, has := ctx.Deadline()
	if !has || time.Until(until) > closeGrace || !errors.Is(err, txn.ErrWaitTimeout) {
		return false
	}
	<-ctx.Done()
	return true
}

// DeadlineGroups implements [admin.Calls].
func (c adminCalls) DeadlineGroups(ctx context.Context, r admin.DeadlineGroupRange) (admin.DeadlineGroups, error) {
	var res *txmgrv1.GroupsResponse
	err := c.longCall(ctx, "timeouts", txn.ID{}, func(ctx context.Context, e *endpoint) (err error) {
		res, err = e.timeouts.Groups(ctx, &txmgrv1.GroupsRequest{From: r.From, Limit: int32(min(max(r.Limit, 0), admin.MaxDeadlineGroups))})
		return err
	})
	if err != nil {
		return admin.DeadlineGroups{}, err
	}
	return translated(wire.ToDeadlineGroups(res))
}

// AddParticipant implements [admin.Participants].
func (c adminCalls) AddParticipant(ctx context.Context, p admin.Participant, by, reason string) error {
	return c.unaryCall(ctx, "add participant", txn.ID{}, func(ctx context.Context, e *endpoint) error {
		_, err := e.participants.Add(ctx, wire.FromParticipant(p, by, reason))
		return err
	})
}

// Participants implements [admin.Participants].
func (c adminCalls) Participants(ctx context.Context) ([]admin.ParticipantStatus, error) {
	var res *txmgrv1.ListParticipantsResponse
	err := c.unaryCall(ctx, "list participants", txn.ID{}, func(ctx context.Context, e *endpoint) (err error) {
		res, err = e.participants.List(ctx, &txmgrv1.ListParticipantsRequest{})
		return err
	})
	if err != nil {
		return nil, err
	}
	return translated(wire.ToParticipants(res.GetParticipants()))
}

// Pools implements [admin.Participants].
func (c adminCalls) Pools(ctx context.Context, participant string) ([]admin.Pool, error) {
	var res *txmgrv1.PoolsResponse
	err := c.unaryCall(ctx, "pools", txn.ID{}, func(ctx context.Context, e *endpoint) (err error) {
		res, err = e.participants.Pools(ctx, &txmgrv1.PoolsRequest{Participant: participant})
		return err
	})
	if err != nil {
		return nil, err
	}
	return translated(wire.ToPools(res))
}

// TestParticipant implements [admin.Participants].
func (c adminCalls) TestParticipant(ctx context.Context, name string) error {
	return c.fanoutCall(ctx, "test participant", txn.ID{}, func(ctx context.Context, e *endpoint) error {
		_, err := e.participants.Test(ctx, &txmgrv1.TestRequest{Name: wire.Text(name)})
		return err
	})
}

// RemoveParticipant implements [admin.Participants].
func (c adminCalls) RemoveParticipant(ctx context.Context, name, by, reason string) error {
	return c.unaryCall(ctx, "remove participant", txn.ID{}, func(ctx context.Context, e *endpoint) error {
		_, err := e.participants.Remove(ctx, &txmgrv1.RemoveRequest{Name: wire.Text(name), By: wire.Text(by), Reason: wire.Text(reason)})
		return err
	})
}

// Status implements [admin.Cluster].
func (c adminCalls) Status(ctx context.Context) (admin.Status, error) {
	_, n := c.currentEndpoint()
	s, err := c.status(ctx)
	for range len(c.endpoints) - 1 {
		if err != nil || s.Leader || slices.ContainsFunc(s.Members, isKnownLeader) {
			break
		}
		c.failOver(n)
		_, n = c.currentEndpoint()
		other, failed := c.status(ctx)
		if failed != nil {
			break
		}
		s = other
	}
	return s, err
}

// isKnownLeader reports whether m leads and its sender knows more of it than its id: a node
// that has just started knows the leader's id before it knows the nodes.
func isKnownLeader(m admin.Member) bool {
	return m.Leader && (m.Name != "" || m.API != "" || m.Version != "")
}

func (c *Client) status(ctx context.Context) (admin.Status, error) {
	var res *txmgrv1.StatusResponse
	err := c.unaryCall(ctx, "status", txn.ID{}, func(ctx context.Context, e *endpoint) (err error) {
		res, err = e.cluster.Status(ctx, &txmgrv1.StatusRequest{})
		return err
	})
	if err != nil {
		return admin.Status{}, err
	}
	return translated(wire.ToStatus(res))
}

func translated[T any](v T, err error) (T, error) {
	if err != nil {
		err = newError("read the answer", txn.ID{}, err)
	}
	return v, err
}
