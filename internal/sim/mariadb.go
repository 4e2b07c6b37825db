package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	tidied map[string]bool          // whose row of proof was removed
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
	db   *mariadb
	app  *app
	tx   txn.ID
	conn int
	life int
	xid  string // guarded by db.mu: that it has begun; empty: none
}

func newMariadb(w *World) *mariadb {
	m := &mariadb{
		server: newServer(w, 1, "stock"), conns: map[int]*mdSession{}, xas: map[string]*mdBranch{},
		rows: map[string]mdRow{}, undone: map[string]time.Duration{}, tidied: map[string]bool{},
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

// holds reports whether a branch has begun and has not ended.
func (m *mariadb) holds(xid string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.xas[xid] != nil
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

// fromElsewhere is what XA COMMIT and XA ROLLBACK of another connection do. mu is held.
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
	return asks(ctx, a, id, &m.server, "connect", func() (*mdSession, error) {
		m.last++
		s := &mdSession{db: m, app: a, tx: id, conn: m.last, life: m.life}
		m.conns[s.conn] = s
		return s, nil
	})
}

// here reports whether the connection is there. mu is held.
func (s *mdSession) here() bool { return s.db.conns[s.conn] == s }

// begin is XA START, and the row of proof, which is the first statement.
func (s *mdSession) begin(ctx context.Context, xid string) error {
	return s.app.does(ctx, s.tx, &s.db.server, "xa start", func() error {
		switch {
		case !s.here():
			return errGone
		case s.db.rows[xid] != 0 || s.db.xas[xid] != nil:
			s.db.w.fire("stock: kept from beginning")
			return errors.New("sim: duplicate key in the table of proof")
		}
		s.xid = xid
		s.db.xas[xid] = &mdBranch{tx: s.tx, conn: s.conn}
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
func (s *mdSession) Prepare(ctx context.Context) (txn.Vote, error) {
	vote, err := asks(ctx, s.app, s.tx, &s.db.server, "xa prepare", func() (txn.Vote, error) {
		b := s.db.xas[s.xid]
		switch {
		case !s.here():
			return 0, errGone
		case b == nil || b.conn != s.conn:
			return txn.VoteNo, nil
		}
		b.prepared = true
		return txn.VotePrepared, nil
	})
	if vote == txn.VoteNo {
		err = errDeadlock
	}
	return vote, err
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
		case b == nil && s.xid == "":
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
func (s *mdSession) CommitOnePhase(ctx context.Context) (txn.BranchState, error) {
	end, err := asks(ctx, s.app, s.tx, &s.db.server, "xa commit one phase", func() (txn.BranchState, error) {
		b := s.db.xas[s.xid]
		switch {
		case !s.here():
			return 0, errGone
		case b == nil || b.conn != s.conn:
			return txn.BranchRolledBack, nil
		}
		s.db.commit(s.xid, b)
		return txn.BranchCommitted, nil
	})
	if end == txn.BranchRolledBack {
		err = errDeadlock
	}
	return end, err
}

// stray reports whether an application that hangs for ever has begun a branch after its
// transaction had ended, and after the barrier that would have kept it from that was
// tidied away. It does nothing any more, and nobody looks for it. mu is held.
func (m *mariadb) stray(xid string) bool {
	b := m.xas[xid]
	s := m.conns[b.conn]
	if b.prepared || !m.tidied[xid] || s == nil || !s.app.hung() {
		return false
	}
	m.w.fire("stock: begun after its proof was tidied")
	return true
}
