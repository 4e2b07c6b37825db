package recovery

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// TestChaos makes participants and log fail in every way at random for a minute,
// while leaders change, deadlines pass and clients complete some branches
// themselves; then all faults end. In every case every branch ends as decided,
// nothing stays prepared, no heuristic outcome is reported falsely, and nothing is remembered.
func TestChaos(t *testing.T) {
	commits, rollbacks, faults := 0, 0, 0
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			c := newChaos(t, seed)
			for second := range 60 {
				sleep(t.Context(), time.Second)
				c.second(second)
			}
			c.heal()
			within(t, 2*time.Minute, "all end after healing", c.log.allDone)
			sleep(t.Context(), 20*time.Second) // for the sweeps
			n, m := c.check()
			commits, rollbacks, faults = commits+n, rollbacks+m, faults+int(c.faults.Load())
			c.rec.Stop()
		})
	}
	t.Logf("%d commits, %d rollbacks, %d faults", commits, rollbacks, faults)
	if commits < 300 || rollbacks < 300 || faults < 2000 {
		t.Error("too little happened to mean anything")
	}
}

type chaos struct {
	t      *testing.T
	chance *rand.Rand // of the test itself
	faulty func() float64
	log    *fakeLog
	res    map[string]*fakeParticipant
	ids    []txn.ID
	rec    *Recovery
	seed   uint64
	faults atomic.Int64
}

func newChaos(t *testing.T, seed uint64) *chaos {
	c := &chaos{
		t: t, chance: rand.New(rand.NewPCG(seed, 1)), faulty: seeded(seed), log: newLog(),
		res: make(map[string]*fakeParticipant), seed: seed,
	}
	for _, name := range []string{"a", "b", "c", "web"} {
		res := newParticipant(c.log, name)
		c.res[name] = res
		res.setFault(func(recordedCall) fault {
			if c.faulty() < 0.5 {
				return none
			}
			c.faults.Add(1)
			return []fault{hang, fail, late, lose, crash, lie}[int(c.faulty()*6)]
		})
	}
	c.log.failReports(func(txn.ID, int) error {
		if c.faulty() < 0.3 {
			return errNoLeader
		}
		return nil
	})
	c.lead()
	return c
}

// lead makes a new leader that has nothing but the log.
func (c *chaos) lead() {
	if c.rec != nil {
		c.rec.Stop()
	}
	c.rec = begin(c.t, Config{
		Start: 3, MaxPerParticipant: 5, MaxCalls: 8, CallTimeout: 2 * time.Second, SweepEvery: 5 * time.Second, Rand: seeded(c.seed),
	}, c.log)
	c.rec.Add(c.ids...)
}

// second is the environment's part of one second.
func (c *chaos) second(n int) {
	for range 2 {
		c.start()
	}
	now := time.Now()
	for _, id := range c.ids {
		var overdue, own, delegated bool
		c.log.with(func() {
			x := c.log.txs[id]
			delegated = x.state == txn.Preparing && x.branches[0].vote == txn.VoteDelegated
			overdue = x.state == txn.Preparing && !delegated && !now.Before(x.deadline)
			own = x.state == txn.Committing && x.own
		})
		if overdue {
			c.log.decide(id, txn.RollingBack, txn.CauseTimeout)
		}
		if own && c.chance.IntN(3) == 0 {
			c.finishOwn(id)
		}
		if delegated && c.chance.IntN(4) == 0 {
			c.commitInOnePhase(id, c.chance.IntN(2) == 0)
		}
	}
	if n%15 == 7 { // the last leader sees the last faults
		c.lead()
	}
}

// start puts one more transaction, of any kind.
func (c *chaos) start() {
	id := idOf(len(c.ids) + 1)
	c.ids = append(c.ids, id)
	switch c.chance.IntN(7) {
	case 0:
		c.log.put(id, txn.Committing, "a", "b", "c")
		c.rec.Add(id)
	case 1:
		c.log.put(id, txn.RollingBack, "a", "b", "c")
		c.rec.Add(id)
	case 2:
		c.log.putOwn(id, txn.Committing, 0, "a", "b", "c")
		c.rec.DeferToClient(id)
	case 4:
		c.log.delegate(id, time.Duration(1+c.chance.IntN(10))*time.Second, "a")
		c.rec.Add(id)
	case 5:
		c.log.putMixed(id, txn.Committing, 0, "a", "b", "web")
		c.rec.Add(id)
	case 6:
		x := c.log.putMixed(id, txn.Preparing, 0, "a", "web", "b")
		c.log.with(func() { x.deadline = time.Now().Add(time.Duration(1+c.chance.IntN(10)) * time.Second) })
		c.rec.Add(id)
	case 3:
		x := c.log.put(id, txn.Preparing, "a", "b", "c")
		c.log.with(func() { x.deadline = time.Now().Add(time.Duration(1+c.chance.IntN(10)) * time.Second) })
		c.rec.Add(id)
	}
}

// commitInOnePhase is an application that commits the only branch, if its connection
// still exists, and reports it or crashes.
func (c *chaos) commitInOnePhase(id txn.ID, reports bool) {
	res, xid := c.res["a"], txn.XID(cluster, id, 1)
	res.mu.Lock()
	gone := res.ended[xid] == participant.RolledBack
	if !gone {
		res.ended[xid] = participant.Committed
	}
	res.mu.Unlock()
	if !gone && reports {
		c.log.ack(id)
	}
}

// finishOwn is a client that commits its branches itself and reports it.
func (c *chaos) finishOwn(id txn.ID) {
	for i, b := range c.log.txs[id].branches {
		if b.web {
			continue
		}
		res, xid := c.res[b.participant], txn.XID(cluster, id, txn.BranchID(i+1))
		res.mu.Lock()
		if res.prepared[xid] {
			delete(res.prepared, xid)
			res.ended[xid] = participant.Committed
		}
		res.mu.Unlock()
	}
	c.log.ack(id)
}

// heal ends all faults; what is still undecided is decided.
func (c *chaos) heal() {
	for _, res := range c.res {
		res.setFault(nil)
	}
	c.log.failReports(nil)
	for _, id := range c.ids {
		delegated := false
		c.log.with(func() { delegated = c.log.txs[id].branches[0].vote == txn.VoteDelegated })
		if c.log.state(id) == txn.Preparing && !delegated {
			c.log.decide(id, txn.RollingBack, txn.CauseTimeout)
		}
	}
}

func (c *chaos) check() (commits, rollbacks int) {
	for _, id := range c.ids {
		want, may := participant.Committed, participant.Committed
		if c.log.state(id) == txn.RolledBack {
			want, may = participant.RolledBack, 0 // it may never have prepared
			rollbacks++
		} else {
			commits++
		}
		for i, b := range c.log.txs[id].branches {
			xid := txn.XID(cluster, id, txn.BranchID(i+1))
			if e := c.res[b.participant].ended[xid]; e != want && e != may {
				c.t.Errorf("seed %d: %s: %v, want %v", c.seed, xid, e, want)
			}
			if b.hazard != 0 {
				c.t.Errorf("seed %d: %s: false heuristic %v", c.seed, xid, b.hazard)
			}
		}
	}
	for name, res := range c.res {
		if n := res.preparedCount(); n != 0 {
			c.t.Errorf("seed %d: %d branches are prepared at %s for ever", c.seed, n, name)
		}
	}
	wantEmpty(c.t, c.rec)
	return commits, rollbacks
}
