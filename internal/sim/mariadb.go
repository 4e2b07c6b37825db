package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// mariadb is a model of a MariaDB server: a prepared branch is bound to the
// connection that prepared it, and is "unknown" to all others as long as that lives;
// while it is on its way out an XA COMMIT from elsewhere is answered with a success
// that is none, and leaves a ghost, which only a restart lists again. What has ended
// is forgotten; the row of proof is all that tells.
type mariadb struct {
	server
	conns  map[int]*mdSession
	xas    map[string]*mdBranch // what has begun and has not ended, by name
	rows   map[string]mdRow
	last   int                      // connection
	undone map[string]time.Duration // rolled back lately: listed again after a crash, by chance
}

type mdRow uint8

const (
	mdWork mdRow = iota + 1
	mdBarrier
)

type mdBranch struct {
	tx       txn.ID
	foreign  bool
	prepared bool
	conn     int // that it is bound to; 0: none
	leaving  bool
	ghost    bool
	work     bool
}

// mdSession is one connection, and the application's session of a branch.
type mdSession struct {
	db       *mariadb
	app      *app
	conn     int
	life     int
	tx       txn.ID
	xid      string
	begun    bool
	readOnly bool
}

func newMariadb(w *World) *mariadb {
	m := &mariadb{
		server: newServer(w, 1, "stock"), conns: map[int]*mdSession{}, xas: map[string]*mdBranch{},
		rows: map[string]mdRow{}, undone: map[string]time.Duration{},
	}
	for _, xid := range foreignNames {
		m.xas[xid] = &mdBranch{foreign: true, prepared: true}
	}
	return m
}

// leave is how long InnoDB holds on to a branch whose connection has ended.
const leave = 100 * time.Millisecond

// crash ends all connections. What was prepared is listed again, ghosts too, and
// what was rolled back a moment ago, by chance.
func (m *mariadb) crash() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.up = false
	m.life++
	clear(m.conns)
	for xid, b := range m.xas {
		if !b.prepared {
			delete(m.xas, xid)
			continue
		}
		b.conn, b.leaving, b.ghost = 0, false, false
	}
	for xid, at := range m.undone {
		if m.w.now()-at < time.Second && m.dice.one(2) {
			m.w.fire("stock: listed again")
			id := txn.ID{}
			if _, tx, _, ok := txn.ParseXID(xid); ok {
				id = tx
			}
			m.xas[xid] = &mdBranch{tx: id, prepared: true, work: true}
		}
	}
	clear(m.undone)
}

func (m *mariadb) start() { m.bad(func(s *server) { s.up = true }) }

// end closes a connection; InnoDB lets go a moment later. mu is held.
func (m *mariadb) end(conn int) {
	s := m.conns[conn]
	if s == nil {
		return
	}
	delete(m.conns, conn)
	b := m.xas[s.xid]
	if b == nil || b.conn != conn {
		return
	}
	b.leaving = true
	life := m.life
	m.w.all.Go(func() {
		rest(m.dice.between(leave/10, leave))
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.life != life || m.xas[s.xid] != b || b.conn != conn {
			return
		}
		b.conn, b.leaving = 0, false
		if !b.prepared {
			delete(m.xas, s.xid)
		}
	})
}

// commit ends a branch well. mu is held.
func (m *mariadb) commit(xid string, b *mdBranch) {
	delete(m.xas, xid)
	m.rows[xid] = mdWork
	if b.work {
		m.effect(b.tx)
	}
}

var (
	errNOTA     = errors.New("sim: XAER_NOTA: unknown XID")
	errDeadlock = errors.New("sim: the transaction was rolled back")
)

// xaCommit is what XA COMMIT and XA ROLLBACK of another connection do. mu is held.
func (m *mariadb) fromElsewhere(xid string, commit bool) error {
	b := m.xas[xid]
	switch {
	case b == nil || !b.prepared || b.ghost:
		return errNOTA
	case b.conn != 0 && !b.leaving:
		m.w.fire("stock: bound to its connection")
		return errNOTA
	case b.leaving:
		m.w.fire("stock: success that is none")
		b.ghost, b.conn, b.leaving = true, 0, false
		return nil
	case commit:
		m.commit(xid, b)
		return nil
	}
	delete(m.xas, xid)
	m.undone[xid] = m.w.now()
	return nil
}

func (s *mdSession) text() string { return fmt.Sprintf("conn=%d life=%d", s.conn, s.life) }

// connect opens a session.
func (m *mariadb) connect(ctx context.Context, id txn.ID, a *app) (*mdSession, error) {
	s := &mdSession{db: m, app: a, tx: id}
	err := a.does(ctx, id, &m.server, "connect", func() error {
		m.last++
		s.conn, s.life = m.last, m.life
		m.conns[s.conn] = s
		return nil
	})
	return s, err
}

// here reports whether the connection is there. mu is held.
func (s *mdSession) here() bool { return s.db.conns[s.conn] == s }

// begin is XA START, and the row of proof, which is the first statement.
func (s *mdSession) begin(ctx context.Context) error {
	return s.app.does(ctx, s.tx, &s.db.server, "xa start", func() error {
		switch {
		case !s.here():
			return errGone
		case s.db.rows[s.xid] != 0 || s.db.xas[s.xid] != nil:
			s.db.w.fire("stock: kept from beginning")
			return errors.New("sim: duplicate key in the table of proof")
		}
		s.begun = true
		s.db.xas[s.xid] = &mdBranch{tx: s.tx, conn: s.conn}
		return nil
	})
}

// exec does the branch's work.
func (s *mdSession) exec(ctx context.Context) error {
	return s.app.does(ctx, s.tx, &s.db.server, "exec", func() error {
		b := s.db.xas[s.xid]
		switch {
		case !s.here() || b == nil || b.conn != s.conn:
			return errGone
		case s.db.dice.one(40):
			delete(s.db.xas, s.xid)
			return errDeadlock
		}
		b.work = true
		return nil
	})
}

// Prepare implements [txn.Session].
func (s *mdSession) Prepare(ctx context.Context) (vote txn.Vote, err error) {
	err = s.app.does(ctx, s.tx, &s.db.server, "xa prepare", func() error {
		b := s.db.xas[s.xid]
		switch {
		case !s.here():
			return errGone
		case b == nil || b.conn != s.conn:
			vote = txn.VoteNo
			return nil
		}
		b.prepared = true
		vote = txn.VotePrepared
		return nil
	})
	if err != nil {
		return 0, err
	}
	if vote == txn.VoteNo {
		return vote, errDeadlock
	}
	return vote, nil
}

// Commit implements [txn.Session].
func (s *mdSession) Commit(ctx context.Context) error {
	return s.app.does(ctx, s.tx, &s.db.server, "xa commit", func() error {
		b := s.db.xas[s.xid]
		if !s.here() || b == nil || b.conn != s.conn || !b.prepared {
			return errNOTA
		}
		s.db.commit(s.xid, b)
		return nil
	})
}

// Rollback implements [txn.Session].
func (s *mdSession) Rollback(ctx context.Context) error {
	return s.app.does(ctx, s.tx, &s.db.server, "xa rollback", func() error {
		b := s.db.xas[s.xid]
		switch {
		case !s.here():
			return errGone
		case b == nil && !s.begun:
			return nil
		case b == nil || b.conn != s.conn:
			return errNOTA
		}
		delete(s.db.xas, s.xid)
		if b.prepared {
			s.db.undone[s.xid] = s.db.w.now()
		}
		return nil
	})
}

// Release implements [txn.Session].
func (s *mdSession) Release() {
	if s.app.hung() {
		return
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.db.end(s.conn)
}

// OnePhase implements [txn.OnePhaser].
func (s *mdSession) OnePhase() bool { return true }

// CommitOnePhase implements [txn.OnePhaser].
func (s *mdSession) CommitOnePhase(ctx context.Context) (end txn.BranchState, err error) {
	err = s.app.does(ctx, s.tx, &s.db.server, "xa commit one phase", func() error {
		b := s.db.xas[s.xid]
		switch {
		case !s.here():
			return errGone
		case b == nil || b.conn != s.conn:
			end = txn.BranchRolledBack
			return nil
		}
		s.db.commit(s.xid, b)
		end = txn.BranchCommitted
		return nil
	})
	if err != nil {
		return 0, err
	}
	if end == txn.BranchRolledBack {
		return end, errDeadlock
	}
	return end, nil
}

// mdClient is the coordinator's side, on one life of one node.
type mdClient struct {
	db   *mariadb
	life *life
}

func (m *mariadb) seenBy(l *life) participant.Participant { return &mdClient{m, l} }

var _ interface {
	participant.Participant
	participant.Settler
	participant.Inspector
	participant.Surveyor
	participant.Tidier
} = (*mdClient)(nil)

// mdView is what one look at the server shows of a branch: its row, whether that is
// locked, and by which connection.
type mdView struct {
	row              mdRow
	prepared, locked bool
	bound            bool // to the connection on record
	conn             int
}

func (c *mdClient) look(ctx context.Context, b participant.Branch) (v mdView, err error) {
	var conn, life int
	_, _ = fmt.Sscanf(b.Session, "conn=%d life=%d", &conn, &life) // zero when there is none
	err = c.db.exchange(ctx, c.life, "look", func() error {
		x := c.db.xas[b.XID]
		v = mdView{row: c.db.rows[b.XID], locked: x != nil, conn: conn}
		if x != nil {
			v.prepared = x.prepared && !x.ghost
			v.bound = x.conn != 0 && x.conn == conn && life == c.db.life
		}
		return nil
	})
	if err != nil {
		return mdView{}, err
	}
	return v, nil
}

// kill is KILL CONNECTION.
func (c *mdClient) kill(ctx context.Context, conn int) error {
	return c.db.exchange(ctx, c.life, "kill", func() error {
		c.db.w.fire("session fenced")
		c.db.end(conn)
		return nil
	})
}

func (c *mdClient) finish(ctx context.Context, xid string, commit bool) error {
	return c.db.exchange(ctx, c.life, fmt.Sprintf("finish %s (commit: %v) by %s", xid, commit, c.life.host.name), func() error {
		return c.db.fromElsewhere(xid, commit)
	})
}

// byRow is the end that a row of proof tells.
func (v mdView) byRow() participant.Result {
	if v.row == mdBarrier {
		return participant.Result{Ending: participant.RolledBack, Detail: "barrier"}
	}
	return participant.Result{Ending: participant.Committed, Detail: "its row is there"}
}

var errWaits = errors.New("sim: it is bound to a connection, or a ghost")

// Commit implements [participant.Participant].
func (c *mdClient) Commit(ctx context.Context, b participant.Branch) (participant.Result, error) {
	if c.db.w.plan.Bugs.Hasty {
		if v, err := c.look(ctx, b); err == nil && v.bound {
			_ = c.kill(ctx, v.conn)
		}
		err := c.finish(ctx, b.XID, true)
		if errors.Is(err, errNOTA) {
			err = nil
		}
		return participant.Result{Ending: participant.Committed, Detail: "XA COMMIT"}, err
	}
	return until(ctx, func(ctx context.Context) (participant.Result, error, error) {
		v, err := c.look(ctx, b)
		switch {
		case err != nil:
			return participant.Result{}, nil, &participant.NoEffectError{Err: err}
		case v.row != 0:
			return v.byRow(), nil, nil
		case v.prepared && v.bound:
			return participant.Result{}, errWaits, c.kill(ctx, v.conn)
		case v.prepared:
			if err := c.finish(ctx, b.XID, true); err != nil && !errors.Is(err, errNOTA) {
				return participant.Result{}, nil, err
			}
			return participant.Result{}, errWaits, nil // the row tells
		case v.locked:
			return participant.Result{}, errWaits, nil
		case b.Session == "":
			return participant.Result{Ending: participant.Unknown, Detail: "no session on record"}, nil, nil
		}
		return participant.Result{Ending: participant.RolledBack, Detail: "not prepared, and no row"}, nil, nil
	})
}

// Rollback implements [participant.Participant].
func (c *mdClient) Rollback(ctx context.Context, b participant.Branch) (participant.Result, error) {
	return c.exclude(ctx, b, false)
}

// Settle implements [participant.Settler].
func (c *mdClient) Settle(ctx context.Context, b participant.Branch) (participant.Result, error) {
	return c.exclude(ctx, b, true)
}

// exclude writes the barrier, which needs that nobody has the branch's row.
func (c *mdClient) exclude(ctx context.Context, b participant.Branch, settle bool) (participant.Result, error) {
	return until(ctx, func(ctx context.Context) (participant.Result, error, error) {
		v, err := c.look(ctx, b)
		switch {
		case err != nil:
			return participant.Result{}, nil, err
		case v.row != 0 && !(v.row == mdBarrier && v.prepared):
			return v.byRow(), nil, nil
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
		return participant.Result{}, errWaits, c.db.exchange(ctx, c.life, "barrier", func() error {
			if c.db.rows[b.XID] == 0 && c.db.xas[b.XID] == nil {
				c.db.rows[b.XID] = mdBarrier
			}
			return nil
		})
	})
}

// Inspect implements [participant.Inspector].
func (c *mdClient) Inspect(ctx context.Context, b participant.Branch) (t participant.Testimony, err error) {
	v, err := c.look(ctx, b)
	switch {
	case err != nil:
	case v.row == mdWork:
		t.Ending = participant.Committed
	case v.prepared:
		t.Prepared = true
	case v.row == mdBarrier || !v.locked && b.Session != "":
		t.Ending = participant.RolledBack
	case !v.locked:
		t.Ending = participant.Unknown
	}
	return t, err
}

// Prepared implements [participant.Participant].
func (c *mdClient) Prepared(ctx context.Context, prefix string) (list []participant.Prepared, err error) {
	err = c.db.exchange(ctx, c.life, "xa recover", func() error {
		for _, xid := range slices.Sorted(maps.Keys(c.db.xas)) {
			if b := c.db.xas[xid]; b.prepared && !b.ghost && strings.HasPrefix(xid, prefix) {
				list = append(list, participant.Prepared{XID: xid})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Survey implements [participant.Surveyor].
func (c *mdClient) Survey(ctx context.Context) (list []participant.Held, err error) {
	all, err := c.Prepared(ctx, "")
	for _, p := range all {
		list = append(list, participant.Held{Prepared: p})
	}
	return list, err
}

// Tidy implements [participant.Tidier].
func (c *mdClient) Tidy(ctx context.Context, limit int, over func(context.Context, []string) ([]bool, error)) (int, error) {
	var names []string
	err := c.db.exchange(ctx, c.life, "list proof", func() error {
		names = slices.Sorted(maps.Keys(c.db.rows))
		names = names[:min(len(names), limit, 1000)]
		return nil
	})
	if err != nil {
		return 0, err
	}
	if len(names) == 0 {
		return 0, nil
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
	err = c.db.exchange(ctx, c.life, "tidy", func() error {
		for i, xid := range names {
			if gone[i] {
				delete(c.db.rows, xid)
				c.db.w.fire("proof tidied")
			}
		}
		return nil
	})
	return removed, err
}

// Check implements [participant.Participant].
func (c *mdClient) Check(ctx context.Context) error {
	return c.db.exchange(ctx, c.life, "check", func() error { return nil })
}

// Close implements [participant.Participant].
func (c *mdClient) Close() error { return nil }
