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

// postgres is a model of a PostgreSQL server: prepared transactions outlive backends and crashes;
// an unknown one is "not there", however it ended; pg_xact_status says how a transaction ended; and
// after a crash xids that were never on disk are assigned again.
type postgres struct {
	server
	sessions map[int]*pgSession // by process id
	prepared map[string]*pgPrepared
	status   map[int]pgStatus // by xid
	rows     map[string]bool  // marker rows, by the name of the branch that was committed with its own
	nextPID  int
	nextXID  int
	durable  int // the highest xid on disk
}

type pgStatus uint8

const (
	pgInProgress pgStatus = iota + 1
	pgCommitted
	pgAborted
)

type pgPrepared struct {
	xid   int
	tx    txn.ID
	since time.Time
}

// pgSession is one backend, and the application's [txn.Resource] for a branch.
type pgSession struct {
	pg            *postgres
	app           *app
	tx            txn.ID
	pid           int
	serverRestart int
	xid           int
	gid           string // used by the application alone
	marks         bool   // likewise: it has written a marker row, which is committed with its branch

	open   bool // guarded by pg.mu, as are the following: its transaction is in progress
	failed bool
	work   bool
}

var (
	errSessionGone = errors.New("sim: the session is not there any more")
	errFailed      = errors.New("sim: the transaction had failed")
)

func newPostgres(w *World) *postgres {
	p := &postgres{
		server: newServer(w, 0, "bank"), sessions: map[int]*pgSession{}, prepared: map[string]*pgPrepared{},
		status: map[int]pgStatus{}, rows: map[string]bool{}, nextXID: 700,
	}
	for _, gid := range foreignNames {
		p.nextXID++
		p.status[p.nextXID] = pgInProgress
		p.durable = p.nextXID
		p.prepared[gid] = &pgPrepared{xid: p.nextXID, since: time.Now()}
	}
	return p
}

// foreignNames are branches of other applications, one of them of another cluster.
var foreignNames = []string{"131077_Zm9yZWlnbg==_YnJhbmNo", "txm_zzzzzz_01k9x3v7h2m8qf4r6t0bz5n1de_b1"}

// crash ends all backends. Prepared branches stay.
func (p *postgres) crash() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up = false
	p.restarts++
	for _, s := range p.sessions {
		s.open = false
	}
	clear(p.sessions)
	kept := map[int]bool{}
	for _, b := range p.prepared {
		kept[b.xid] = true
	}
	for xid, st := range p.status {
		switch {
		case xid > p.durable:
			delete(p.status, xid)
		case st == pgInProgress && !kept[xid]:
			p.status[xid] = pgAborted
		}
	}
	p.nextXID = p.durable
}

// holds reports whether a branch is prepared.
func (p *postgres) holds(gid string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.prepared[gid] != nil
}

func (p *postgres) start() { p.configure(func(s *server) { s.up = true }) }

// end ends a backend: what it has not prepared is rolled back. mu is held.
func (p *postgres) end(pid int) {
	s := p.sessions[pid]
	if s == nil {
		return
	}
	delete(p.sessions, pid)
	if s.open {
		s.open = false
		p.status[s.xid] = pgAborted
	}
}

// finish models COMMIT PREPARED and ROLLBACK PREPARED. mu is held.
func (p *postgres) finish(gid string, commit bool) bool {
	b := p.prepared[gid]
	if b == nil {
		return false
	}
	delete(p.prepared, gid)
	p.status[b.xid] = pgAborted
	if commit {
		p.status[b.xid] = pgCommitted
		p.effect(b.tx)
	}
	return true
}

// text is the session reference that the application records at enlist.
func (s *pgSession) text() string {
	ref := fmt.Sprintf("pid=%d life=%d xid=%d", s.pid, s.serverRestart, s.xid)
	if s.marks {
		ref += marksRow
	}
	return ref
}

// marksRow ends the session reference of a branch that writes a marker row, which alone tells how it ended.
const marksRow = " row"

// begin connects and begins a transaction with an xid.
func (p *postgres) begin(ctx context.Context, id txn.ID, a *app) (*pgSession, error) {
	return execStatement(ctx, a, id, &p.server, "begin", func() (*pgSession, error) {
		p.nextPID++
		p.nextXID++
		s := &pgSession{pg: p, app: a, tx: id, pid: p.nextPID, serverRestart: p.restarts, xid: p.nextXID, open: true}
		p.status[s.xid] = pgInProgress
		p.sessions[s.pid] = s
		return s, nil
	})
}

// exec performs the work of the branch.
func (s *pgSession) exec(ctx context.Context) error {
	return s.app.exec(ctx, s.tx, &s.pg.server, "exec", func() error {
		switch {
		case !s.open:
			return errSessionGone
		case s.pg.rng.oneIn(40):
			s.failed = true // PREPARE TRANSACTION will answer ROLLBACK
			return nil
		}
		s.work = true
		return nil
	})
}

// Prepare implements [txn.Resource].
func (s *pgSession) Prepare(ctx context.Context) (txn.Vote, error) {
	vote, err := execStatement(ctx, s.app, s.tx, &s.pg.server, "prepare", func() (txn.Vote, error) {
		if !s.open {
			return 0, errSessionGone
		}
		s.open = false
		if s.work && !s.failed {
			s.pg.prepared[s.gid] = &pgPrepared{xid: s.xid, tx: s.tx, since: time.Now()}
			s.pg.durable = max(s.pg.durable, s.xid)
			return txn.VotePrepared, nil
		}
		s.pg.status[s.xid] = pgAborted
		switch {
		case !s.failed:
			return txn.VoteReadOnly, nil
		case s.pg.w.plan.Bugs.IgnoreTag:
			return txn.VotePrepared, nil
		}
		return txn.VoteNo, nil
	})
	if vote == txn.VoteNo {
		err = errFailed
	}
	return vote, err
}

// Commit implements [txn.Resource].
func (s *pgSession) Commit(ctx context.Context) error { return s.end(ctx, true) }

// Rollback implements [txn.Resource].
func (s *pgSession) Rollback(ctx context.Context) error { return s.end(ctx, false) }

func (s *pgSession) end(ctx context.Context, commit bool) error {
	return s.app.exec(ctx, s.tx, &s.pg.server, "end", func() error {
		switch {
		case s.open && !commit:
			s.open = false
			s.pg.status[s.xid] = pgAborted
		case !s.pg.finish(s.gid, commit):
			return errSessionGone
		}
		return nil
	})
}

// Release implements [txn.Resource].
func (s *pgSession) Release() {
	if s.app.hung() {
		return
	}
	s.pg.mu.Lock()
	defer s.pg.mu.Unlock()
	s.pg.end(s.pid)
}

// OnePhase implements [txn.OnePhaseCommitter].
func (s *pgSession) OnePhase() bool { return true }

// CommitOnePhase implements [txn.OnePhaseCommitter].
func (s *pgSession) CommitOnePhase(ctx context.Context) (txn.BranchState, error) {
	end, err := execStatement(ctx, s.app, s.tx, &s.pg.server, "commit in one phase", func() (txn.BranchState, error) {
		switch {
		case !s.open:
			return 0, errSessionGone
		case s.failed:
			s.open = false
			s.pg.status[s.xid] = pgAborted
			return txn.BranchRolledBack, nil
		}
		s.open = false
		s.pg.status[s.xid] = pgCommitted
		if s.marks {
			s.pg.rows[s.gid] = true
			s.pg.durable = max(s.pg.durable, s.xid)
		}
		if s.work {
			s.pg.durable = max(s.pg.durable, s.xid)
			s.pg.effect(s.tx)
		}
		return txn.BranchCommitted, nil
	})
	if end == txn.BranchRolledBack {
		err = errFailed
	}
	return end, err
}

// pgClient is the coordinator's side, in one process of one node.
type pgClient struct {
	pg      *postgres
	process *process
}

func (p *postgres) participantFor(l *process) participant.Participant { return &pgClient{p, l} }

var _ interface {
	participant.Participant
	participant.OutcomeResolver
	participant.Inspector
	participant.LockInspector
} = (*pgClient)(nil)

// pgXactInfo is what the server knows of the transaction of a backend.
type pgXactInfo struct {
	status  pgStatus // zero: never assigned
	renewed bool
	open    bool // the backend is still in this transaction
	marked  bool // the marker row of the branch can be read
	pid     int
}

func (c *pgClient) xactInfo(ctx context.Context, b participant.Branch) (e pgXactInfo, known bool, err error) {
	var pid, life, xid int
	if _, err := fmt.Sscanf(b.SessionRef, "pid=%d life=%d xid=%d", &pid, &life, &xid); err != nil {
		return e, false, nil
	}
	e, err = exchange(ctx, &c.pg.server, c.process, "evidence", func() (pgXactInfo, error) {
		s := c.pg.sessions[pid]
		open := s != nil && s.serverRestart == life && s.xid == xid && s.open
		return pgXactInfo{status: c.pg.status[xid], renewed: life != c.pg.restarts, open: open, marked: c.pg.rows[b.XID], pid: pid}, nil
	})
	return e, err == nil, err
}

func (c *pgClient) finish(ctx context.Context, b participant.Branch, commit bool) (found bool, err error) {
	what := fmt.Sprintf("finish %s (commit: %v) by %s", b.XID, commit, c.process.host.name)
	return exchange(ctx, &c.pg.server, c.process, what, func() (bool, error) {
		if c.pg.rng.oneIn(50) {
			return false, &participant.NoEffectError{Err: errors.New("sim: 55000 busy")}
		}
		return c.pg.finish(b.XID, commit), nil
	})
}

// kill models pg_terminate_backend.
func (c *pgClient) kill(ctx context.Context, pid int) error {
	return c.pg.send(ctx, c.process, "terminate", func() error {
		c.pg.w.countFault("session fenced")
		c.pg.end(pid)
		return nil
	})
}

// Commit implements [participant.Participant].
func (c *pgClient) Commit(ctx context.Context, b participant.Branch) (participant.Result, error) {
	found, err := c.finish(ctx, b, true)
	switch {
	case err != nil:
		return participant.Result{}, err
	case found:
		return participant.Result{Outcome: participant.Committed, Detail: "COMMIT PREPARED"}, nil
	case c.pg.w.plan.Bugs.TrustNotThere:
		return participant.Result{Outcome: participant.Committed, Detail: "it is not there, so it must have been committed"}, nil
	}
	c.pg.w.countFault("bank: not there at commit")
	e, known, err := c.xactInfo(ctx, b)
	switch {
	case err != nil:
		return participant.Result{}, &participant.NoEffectError{Err: err}
	case known && e.status == pgCommitted:
		return participant.Result{Outcome: participant.Committed, Detail: "pg_xact_status"}, nil
	case known && e.status == pgAborted:
		return participant.Result{Outcome: participant.RolledBack, Detail: "pg_xact_status"}, nil
	case known && e.status == pgInProgress:
		return participant.Result{}, errors.New("sim: not prepared, and still in progress")
	}
	return participant.Result{Outcome: participant.Unknown, Detail: "not prepared, and no proof"}, nil
}

// Rollback implements [participant.Participant].
func (c *pgClient) Rollback(ctx context.Context, b participant.Branch) (participant.Result, error) {
	return poll(ctx, func(ctx context.Context) (participant.Result, error, error) {
		found, err := c.finish(ctx, b, false)
		if err != nil || found {
			return participant.Result{Outcome: participant.RolledBack, Detail: "ROLLBACK PREPARED"}, nil, err
		}
		e, known, err := c.xactInfo(ctx, b)
		never := participant.Result{Outcome: participant.RolledBack, Detail: "not prepared"}
		if b.Vote == txn.VotePrepared {
			never.Outcome = participant.Unknown
		}
		switch {
		case err != nil:
			return participant.Result{}, nil, err
		case !known:
			return never, nil, nil
		case e.status == pgAborted:
			return participant.Result{Outcome: participant.RolledBack, Detail: "pg_xact_status"}, nil, nil
		case e.open:
			return participant.Result{}, errors.New("sim: its session was told to end"), c.kill(ctx, e.pid)
		case e.renewed && b.Vote != txn.VotePrepared:
			return never, nil, nil
		case e.status == pgCommitted:
			return participant.Result{Outcome: participant.Committed, Detail: "pg_xact_status"}, nil, nil
		case e.status == pgInProgress:
			return participant.Result{}, errors.New("sim: in progress, or being prepared"), nil
		}
		return never, nil, nil
	})
}

// ResolveOutcome implements [participant.OutcomeResolver].
func (c *pgClient) ResolveOutcome(ctx context.Context, b participant.Branch) (participant.Result, error) {
	return poll(ctx, func(ctx context.Context) (participant.Result, error, error) {
		e, known, err := c.xactInfo(ctx, b)
		switch {
		case err != nil:
			return participant.Result{}, nil, err
		case e.marked:
			return participant.Result{Outcome: participant.Committed, Detail: "marker row"}, nil, nil
		case e.open:
			return participant.Result{}, errors.New("sim: its session was told to end"), c.kill(ctx, e.pid)
		case strings.HasSuffix(b.SessionRef, marksRow):
			return participant.Result{Outcome: participant.RolledBack, Detail: "no marker row"}, nil, nil
		}
		end := e.outcome(false)
		if !known {
			end = participant.Unknown
		}
		if end == 0 && e.renewed {
			end = participant.RolledBack // the xid belongs to another transaction now
		}
		if end == 0 {
			return participant.Result{}, errors.New("sim: in progress"), nil
		}
		if end == participant.Unknown {
			c.pg.w.countFault("bank: no proof of an end")
		}
		return participant.Result{Outcome: end, Detail: "pg_xact_status"}, nil, nil
	})
}

func (e pgXactInfo) outcome(wasPrepared bool) participant.BranchOutcome {
	switch {
	case e.status == pgAborted:
		return participant.RolledBack
	case e.status == pgCommitted && e.renewed && !wasPrepared:
		return participant.Unknown
	case e.status == pgCommitted:
		return participant.Committed
	case e.status == 0 && e.renewed && !wasPrepared:
		return participant.RolledBack
	case e.status == 0:
		return participant.Unknown
	}
	return 0
}

// Inspect implements [participant.Inspector].
func (c *pgClient) Inspect(ctx context.Context, b participant.Branch) (t participant.BranchReport, err error) {
	t, err = exchange(ctx, &c.pg.server, c.process, "inspect", func() (participant.BranchReport, error) {
		if p := c.pg.prepared[b.XID]; p != nil {
			return participant.BranchReport{Prepared: true, Since: p.since}, nil
		}
		return participant.BranchReport{}, nil
	})
	if err != nil || t.Prepared {
		return t, err
	}
	e, known, err := c.xactInfo(ctx, b)
	if t.Outcome = participant.Unknown; known {
		t.Outcome = e.outcome(b.Vote == txn.VotePrepared)
	}
	return t, err
}

// Prepared implements [participant.Participant].
func (c *pgClient) Prepared(ctx context.Context, prefix string) ([]participant.Prepared, error) {
	return exchange(ctx, &c.pg.server, c.process, "list", func() (list []participant.Prepared, err error) {
		for _, gid := range slices.Sorted(maps.Keys(c.pg.prepared)) {
			if strings.HasPrefix(gid, prefix) {
				list = append(list, participant.Prepared{XID: gid, Since: c.pg.prepared[gid].since})
			}
		}
		return list, nil
	})
}

// InspectLocks implements [participant.LockInspector].
func (c *pgClient) InspectLocks(ctx context.Context) (list []participant.PreparedDetails, err error) {
	all, err := c.Prepared(ctx, "")
	for _, p := range all {
		list = append(list, participant.PreparedDetails{Prepared: p})
	}
	return list, err
}

// Check implements [participant.Participant].
func (c *pgClient) Check(ctx context.Context) error {
	return c.pg.send(ctx, c.process, "check", func() error { return nil })
}

// Close implements [participant.Participant].
func (c *pgClient) Close() error { return nil }
