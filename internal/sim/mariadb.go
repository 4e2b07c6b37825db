package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// mariadb is a model of a MariaDB server: a prepared branch is bound to the connection that
// prepared it, and is "unknown" to all others while that is open; while it is closing an XA COMMIT
// from another connection returns success without effect, and orphans the locks of the branch,
// which only a restart lists again. What has ended is forgotten; only the marker row proves it.
type mariadb struct {
	server
	conns      map[int]*mdSession
	xas        map[string]*mdBranch // begun and not ended, by name
	rows       map[string]mdRow
	last       int                      // the last connection id
	rolledBack map[string]time.Duration // rolled back recently: listed again after a crash, by chance
	pruned     map[string]bool          // branches whose marker row was removed
}

type mdRow uint8

const (
	mdWork mdRow = iota + 1
	mdBarrier
)

type mdBranch struct {
	tx            txn.ID
	foreign       bool
	prepared      bool
	conn          int // the connection that it is bound to; 0: none
	disconnecting bool
	orphaned      bool
	work          bool
}

// mdSession is one connection, and the application's [txn.Resource] for a branch.
type mdSession struct {
	db            *mariadb
	app           *app
	tx            txn.ID
	conn          int
	serverRestart int
	xid           string // guarded by db.mu: the branch that it has begun; empty: none
}

func newMariadb(w *World) *mariadb {
	m := &mariadb{
		server: newServer(w, 1, "stock"), conns: map[int]*mdSession{}, xas: map[string]*mdBranch{},
		rows: map[string]mdRow{}, rolledBack: map[string]time.Duration{}, pruned: map[string]bool{},
	}
	for _, xid := range foreignNames {
		m.xas[xid] = &mdBranch{foreign: true, prepared: true}
	}
	return m
}

// disconnectDelay is how long InnoDB keeps a branch whose connection has been closed.
const disconnectDelay = 100 * time.Millisecond

// crash ends all connections. What was prepared is listed again, including branches with orphaned
// locks, and what was rolled back just before, by chance.
func (m *mariadb) crash() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.up = false
	m.restarts++
	clear(m.conns)
	for xid, b := range m.xas {
		if !b.prepared {
			delete(m.xas, xid)
			continue
		}
		b.conn, b.disconnecting, b.orphaned = 0, false, false
	}
	for xid, at := range m.rolledBack {
		if m.w.now()-at < time.Second && m.rng.oneIn(2) {
			m.w.countFault("stock: listed again")
			id := txn.ID{}
			if _, tx, _, ok := txn.ParseXID(xid); ok {
				id = tx
			}
			m.xas[xid] = &mdBranch{tx: id, prepared: true, work: true}
		}
	}
	clear(m.rolledBack)
}

// holds reports whether a branch has begun and has not ended.
func (m *mariadb) holds(xid string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.xas[xid] != nil
}

func (m *mariadb) start() { m.configure(func(s *server) { s.up = true }) }

// end closes a connection; InnoDB releases its branch a moment later. mu is held.
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
	b.disconnecting = true
	life := m.restarts
	m.w.all.Go(func() {
		sleep(m.rng.between(disconnectDelay/10, disconnectDelay))
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.restarts != life || m.xas[s.xid] != b || b.conn != conn {
			return
		}
		b.conn, b.disconnecting = 0, false
		if !b.prepared {
			delete(m.xas, s.xid)
		}
	})
}

// commit commits a branch. mu is held.
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

// fromElsewhere models XA COMMIT and XA ROLLBACK of another connection. mu is held.
func (m *mariadb) fromElsewhere(xid string, commit bool) error {
	b := m.xas[xid]
	switch {
	case b == nil || !b.prepared || b.orphaned:
		return errNOTA
	case b.conn != 0 && !b.disconnecting:
		m.w.countFault("stock: bound to its connection")
		return errNOTA
	case b.disconnecting:
		m.w.countFault("stock: success that is none")
		b.orphaned, b.conn, b.disconnecting = true, 0, false
		return nil
	case commit:
		m.commit(xid, b)
		return nil
	}
	delete(m.xas, xid)
	m.rolledBack[xid] = m.w.now()
	return nil
}

func (s *mdSession) text() string { return fmt.Sprintf("conn=%d life=%d", s.conn, s.serverRestart) }

// connect opens a connection.
func (m *mariadb) connect(ctx context.Context, id txn.ID, a *app) (*mdSession, error) {
	return execStatement(ctx, a, id, &m.server, "connect", func() (*mdSession, error) {
		m.last++
		s := &mdSession{db: m, app: a, tx: id, conn: m.last, serverRestart: m.restarts}
		m.conns[s.conn] = s
		return s, nil
	})
}

// here reports whether the connection is open. mu is held.
func (s *mdSession) here() bool { return s.db.conns[s.conn] == s }

// begin is XA START, and the marker row, which is the first statement.
func (s *mdSession) begin(ctx context.Context, xid string) error {
	return s.app.exec(ctx, s.tx, &s.db.server, "xa start", func() error {
		switch {
		case !s.here():
			return errSessionGone
		case s.db.rows[xid] != 0 || s.db.xas[xid] != nil:
			s.db.w.countFault("stock: kept from beginning")
			return errors.New("sim: duplicate key in the marker table")
		}
		s.xid = xid
		s.db.xas[xid] = &mdBranch{tx: s.tx, conn: s.conn}
		return nil
	})
}

// exec performs the work of the branch.
func (s *mdSession) exec(ctx context.Context) error {
	return s.app.exec(ctx, s.tx, &s.db.server, "exec", func() error {
		b := s.db.xas[s.xid]
		switch {
		case !s.here() || b == nil || b.conn != s.conn:
			return errSessionGone
		case s.db.rng.oneIn(40):
			delete(s.db.xas, s.xid)
			return errDeadlock
		}
		b.work = true
		return nil
	})
}

// Prepare implements [txn.Resource].
func (s *mdSession) Prepare(ctx context.Context) (txn.Vote, error) {
	vote, err := execStatement(ctx, s.app, s.tx, &s.db.server, "xa prepare", func() (txn.Vote, error) {
		b := s.db.xas[s.xid]
		switch {
		case !s.here():
			return 0, errSessionGone
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

// Commit implements [txn.Resource].
func (s *mdSession) Commit(ctx context.Context) error {
	return s.app.exec(ctx, s.tx, &s.db.server, "xa commit", func() error {
		b := s.db.xas[s.xid]
		if !s.here() || b == nil || b.conn != s.conn || !b.prepared {
			return errNOTA
		}
		s.db.commit(s.xid, b)
		return nil
	})
}

// Rollback implements [txn.Resource].
func (s *mdSession) Rollback(ctx context.Context) error {
	return s.app.exec(ctx, s.tx, &s.db.server, "xa rollback", func() error {
		b := s.db.xas[s.xid]
		switch {
		case !s.here():
			return errSessionGone
		case b == nil && s.xid == "":
			return nil
		case b == nil || b.conn != s.conn:
			return errNOTA
		}
		delete(s.db.xas, s.xid)
		if b.prepared {
			s.db.rolledBack[s.xid] = s.db.w.now()
		}
		return nil
	})
}

// Release implements [txn.Resource].
func (s *mdSession) Release() {
	if s.app.hung() {
		return
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.db.end(s.conn)
}

// OnePhase implements [txn.OnePhaseCommitter].
func (s *mdSession) OnePhase() bool { return true }

// CommitOnePhase implements [txn.OnePhaseCommitter].
func (s *mdSession) CommitOnePhase(ctx context.Context) (txn.BranchState, error) {
	end, err := execStatement(ctx, s.app, s.tx, &s.db.server, "xa commit one phase", func() (txn.BranchState, error) {
		b := s.db.xas[s.xid]
		switch {
		case !s.here():
			return 0, errSessionGone
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

// isStray reports whether an application that hangs for ever has begun a branch after its
// transaction had ended, and after the barrier that would have prevented it was pruned. The
// application does nothing more, and recovery does not look for the branch. mu is held.
func (m *mariadb) isStray(xid string) bool {
	b := m.xas[xid]
	s := m.conns[b.conn]
	if b.prepared || !m.pruned[xid] || s == nil || !s.app.hung() {
		return false
	}
	m.w.countFault("stock: begun after its proof was tidied")
	return true
}
