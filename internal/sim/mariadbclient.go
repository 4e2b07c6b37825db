package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/participant"
)

// mdClient is the coordinator's side, in one process of one node.
type mdClient struct {
	db      *mariadb
	process *process
}

func (m *mariadb) participantFor(l *process) participant.Participant { return &mdClient{m, l} }

var _ interface {
	participant.Participant
	participant.OutcomeResolver
	participant.Inspector
	participant.LockInspector
	participant.Pruner
} = (*mdClient)(nil)

// branchState is the state of a branch at the server: its marker row, whether that is locked, and
// by which connection.
type branchState struct {
	row              mdRow
	prepared, locked bool
	bound            bool // to the connection of its session reference
	conn             int
}

func (c *mdClient) readState(ctx context.Context, b participant.Branch) (branchState, error) {
	var conn, life int
	_, _ = fmt.Sscanf(b.SessionRef, "conn=%d life=%d", &conn, &life) // zero if there is none
	return exchange(ctx, &c.db.server, c.process, "look", func() (branchState, error) {
		x := c.db.xas[b.XID]
		v := branchState{row: c.db.rows[b.XID], locked: x != nil, conn: conn}
		if x != nil {
			v.prepared = x.prepared && !x.orphaned
			v.bound = x.conn != 0 && x.conn == conn && life == c.db.restarts
		}
		return v, nil
	})
}

// kill models KILL CONNECTION.
func (c *mdClient) kill(ctx context.Context, conn int) error {
	return c.db.send(ctx, c.process, "kill", func() error {
		c.db.w.countFault("session fenced")
		c.db.end(conn)
		return nil
	})
}

func (c *mdClient) finish(ctx context.Context, xid string, commit bool) error {
	what := fmt.Sprintf("finish %s (commit: %v) by %s", xid, commit, c.process.host.name)
	return c.db.send(ctx, c.process, what, func() error { return c.db.fromElsewhere(xid, commit) })
}

// outcome is the outcome that a marker row proves.
func (v branchState) outcome() participant.Result {
	if v.row == mdBarrier {
		return participant.Result{Outcome: participant.RolledBack, Detail: "barrier"}
	}
	return participant.Result{Outcome: participant.Committed, Detail: "its row is there"}
}

var errWaits = errors.New("sim: it is bound to a connection, or a ghost")

// Commit implements [participant.Participant].
func (c *mdClient) Commit(ctx context.Context, b participant.Branch) (participant.Result, error) {
	if c.db.w.plan.Bugs.NoWait {
		if v, err := c.readState(ctx, b); err == nil && v.bound {
			_ = c.kill(ctx, v.conn)
		}
		err := c.finish(ctx, b.XID, true)
		if errors.Is(err, errNOTA) {
			err = nil
		}
		return participant.Result{Outcome: participant.Committed, Detail: "XA COMMIT"}, err
	}
	return poll(ctx, func(ctx context.Context) (participant.Result, error, error) {
		v, err := c.readState(ctx, b)
		switch {
		case err != nil:
			return participant.Result{}, nil, &participant.NoEffectError{Err: err}
		case v.row != 0:
			return v.outcome(), nil, nil
		case v.prepared && v.bound:
			return participant.Result{}, errWaits, c.kill(ctx, v.conn)
		case v.prepared:
			if err := c.finish(ctx, b.XID, true); err != nil && !errors.Is(err, errNOTA) {
				return participant.Result{}, nil, err
			}
			return participant.Result{}, errWaits, nil // the row decides
		case v.locked:
			return participant.Result{}, errWaits, nil
		case b.SessionRef == "":
			return participant.Result{Outcome: participant.Unknown, Detail: "no session on record"}, nil, nil
		}
		return participant.Result{Outcome: participant.RolledBack, Detail: "not prepared, and no row"}, nil, nil
	})
}

// Rollback implements [participant.Participant].
func (c *mdClient) Rollback(ctx context.Context, b participant.Branch) (participant.Result, error) {
	return c.exclude(ctx, b, false)
}

// ResolveOutcome implements [participant.OutcomeResolver].
func (c *mdClient) ResolveOutcome(ctx context.Context, b participant.Branch) (participant.Result, error) {
	return c.exclude(ctx, b, true)
}

// exclude writes the barrier, which requires that no transaction has locked the branch's row.
func (c *mdClient) exclude(ctx context.Context, b participant.Branch, settle bool) (participant.Result, error) {
	return poll(ctx, func(ctx context.Context) (participant.Result, error, error) {
		v, err := c.readState(ctx, b)
		switch {
		case err != nil:
			return participant.Result{}, nil, err
		case v.row != 0 && !(v.row == mdBarrier && v.prepared):
			return v.outcome(), nil, nil
		case v.bound:
			return participant.Result{}, errWaits, c.kill(ctx, v.conn)
		case v.prepared && !settle:
			err := c.finish(ctx, b.XID, false)
			if errors.Is(err, errNOTA) {
				err = nil
			}
			return participant.Result{}, errWaits, err
		case v.locked:
			return participant.Result{}, errWaits, nil
		}
		return participant.Result{}, errWaits, c.db.send(ctx, c.process, "barrier", func() error {
			if c.db.rows[b.XID] == 0 && c.db.xas[b.XID] == nil {
				c.db.rows[b.XID] = mdBarrier
			}
			return nil
		})
	})
}

// Inspect implements [participant.Inspector].
func (c *mdClient) Inspect(ctx context.Context, b participant.Branch) (t participant.BranchReport, err error) {
	v, err := c.readState(ctx, b)
	switch {
	case err != nil:
	case v.row == mdWork:
		t.Outcome = participant.Committed
	case v.prepared:
		t.Prepared = true
	case v.row == mdBarrier || !v.locked && b.SessionRef != "":
		t.Outcome = participant.RolledBack
	case !v.locked:
		t.Outcome = participant.Unknown
	}
	return t, err
}

// Prepared implements [participant.Participant].
func (c *mdClient) Prepared(ctx context.Context, prefix string) ([]participant.Prepared, error) {
	return exchange(ctx, &c.db.server, c.process, "xa recover", func() (list []participant.Prepared, err error) {
		for _, xid := range slices.Sorted(maps.Keys(c.db.xas)) {
			if b := c.db.xas[xid]; b.prepared && !b.orphaned && strings.HasPrefix(xid, prefix) {
				list = append(list, participant.Prepared{XID: xid})
			}
		}
		return list, nil
	})
}

// InspectLocks implements [participant.LockInspector].
func (c *mdClient) InspectLocks(ctx context.Context) (list []participant.PreparedDetails, err error) {
	all, err := c.Prepared(ctx, "")
	for _, p := range all {
		list = append(list, participant.PreparedDetails{Prepared: p})
	}
	return list, err
}

// Prune implements [participant.Pruner].
func (c *mdClient) Prune(ctx context.Context, limit int, over func(context.Context, []string) ([]bool, error)) (int, error) {
	names, err := exchange(ctx, &c.db.server, c.process, "list proof", func() ([]string, error) {
		all := slices.Sorted(maps.Keys(c.db.rows))
		return all[:min(len(all), limit, 1000)], nil
	})
	if err != nil || len(names) == 0 {
		return 0, err
	}
	gone, err := over(ctx, names)
	if err != nil {
		return 0, err
	}
	removed := 0
	for i := range gone {
		if gone[i] {
			removed++
		}
	}
	err = c.db.send(ctx, c.process, "tidy", func() error {
		for i, xid := range names {
			if gone[i] {
				delete(c.db.rows, xid)
				c.db.pruned[xid] = true
				c.db.w.countFault("proof tidied")
			}
		}
		return nil
	})
	return removed, err
}

// Check implements [participant.Participant].
func (c *mdClient) Check(ctx context.Context) error {
	return c.db.send(ctx, c.process, "check", func() error { return nil })
}

// Close implements [participant.Participant].
func (c *mdClient) Close() error { return nil }
