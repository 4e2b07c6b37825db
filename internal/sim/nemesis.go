package sim

import (
	"context"
	"time"
)

// fault is a fault that lasts for a while.
type fault struct {
	name      string
	run       func(w *World, d *rng)
	elections bool // it causes many elections, and late messages about them
}

// faults are all faults that a run can draw. Each counts itself when it has occurred.
func faults() []fault {
	return []fault{
		{name: "cut one way", run: func(w *World, d *rng) { w.cut(d, false) }},
		{name: "cut both ways", run: func(w *World, d *rng) { w.cut(d, true) }},
		{name: "cut off a node", run: cutOff},
		{name: "cut in a ring", run: cutRing},
		{name: "flapping", run: flapping},
		{name: "messages lost", run: lossyNetwork},
		{name: "messages slow", run: slowNetwork, elections: true},
		{name: "messages twice", run: duplicateRequests},
		{name: "node crashes", run: func(w *World, d *rng) { w.crashFor(w.hosts[d.n(len(w.hosts))], d) }},
		{name: "leader crashes", run: func(w *World, d *rng) { w.crashFor(w.leading(d), d) }},
		{name: "all nodes crash", run: crashAll},
		{name: "leadership handed over", run: func(w *World, d *rng) { w.transferLeadership(d) }, elections: true},
		{name: "leaders change all the time", run: leaderStorm, elections: true},
		{name: "node paused", run: func(w *World, d *rng) { w.pauseFor(w.hosts[d.n(len(w.hosts))], d) }},
		{name: "leader paused", run: func(w *World, d *rng) { w.pauseFor(w.leading(d), d) }},
		{name: "slow disk", run: slowDisk, elections: true},
		{name: "disk full", run: func(w *World, d *rng) { failDisk(w, d, diskFull) }},
		{name: "disk fails", run: func(w *World, d *rng) { failDisk(w, d, diskFailing) }},
		{name: "wall clock jumps", run: clockJump},
		{name: "participant crashes", run: participantCrashes},
		{name: "participant out of reach", run: participantCut},
		{name: "participant hangs", run: participantHangs},
		{name: "participant's answers lost", run: participantLosesAnswers},
		{name: "leader replaced while its workers hang", run: hangWorkers},
		{name: "snapshot asked for", run: func(w *World, d *rng) {
			if l := w.hosts[d.n(len(w.hosts))].running(); l != nil {
				_ = l.node.Snapshot()
			}
		}},
	}
}

// runNemesis injects faults until the time is over. Each run has some kinds only, so that a run may
// have many of few kinds; and some runs only those that make elections overlap.
func (w *World) runNemesis(until time.Duration) {
	d := newRNG(w.plan.Seed, 3)
	var mine []fault
	restless := d.oneIn(8)
	for _, f := range faults() {
		if restless && f.elections || !restless && d.oneIn(2) {
			mine = append(mine, f)
		}
	}
	pace := d.between(300*time.Millisecond, 3*time.Second)
	sleep(d.between(0, 3*time.Second))
	for w.now() < until && len(mine) > 0 {
		f := mine[d.n(len(mine))]
		w.tracef("fault: %s", f.name)
		w.countFault(f.name)
		of := newRNG(w.plan.Seed, uint64(d.n(1<<30)))
		w.all.Go(func() { f.run(w, of) })
		sleep(d.between(pace/10, 2*pace))
	}
}

// waitFault waits for the duration of a fault.
func (w *World) waitFault(d *rng, least, most time.Duration) { sleepCtx(w.ctx, d.between(least, most)) }

func (w *World) pair(d *rng) (a, b int) {
	a = d.n(len(w.hosts))
	return a, (a + 1 + d.n(len(w.hosts)-1)) % len(w.hosts)
}

func (w *World) cut(d *rng, both bool) {
	a, b := w.pair(d)
	w.net.set(a, b, true)
	if both {
		w.net.set(b, a, true)
	}
	w.waitFault(d, 100*time.Millisecond, 8*time.Second)
	w.net.set(a, b, false)
	w.net.set(b, a, false)
}

func cutOff(w *World, d *rng) {
	h := w.hosts[d.n(len(w.hosts))]
	if d.oneIn(2) {
		h = w.leading(d)
	}
	way := d.n(3) // in, out, both
	all := func(cut bool) {
		for i := range w.hosts {
			if i == h.index {
				continue
			}
			if way != 0 || !cut {
				w.net.set(h.index, i, cut)
			}
			if way != 1 || !cut {
				w.net.set(i, h.index, cut)
			}
		}
	}
	all(true)
	w.waitFault(d, 200*time.Millisecond, 15*time.Second)
	all(false)
}

// cutRing leaves every node connected to two others; with three nodes it separates one pair.
func cutRing(w *World, d *rng) {
	n := len(w.hosts)
	ring := func(cut bool) {
		for i := range n {
			for j := range n {
				near := j == (i+1)%n || i == (j+1)%n
				if n == 3 {
					near = i == 0 || j == 0
				}
				if i != j && !near {
					w.net.set(i, j, cut)
				}
			}
		}
	}
	ring(true)
	w.waitFault(d, time.Second, 12*time.Second)
	ring(false)
}

func flapping(w *World, d *rng) {
	a, b := w.pair(d)
	for range 4 + d.n(20) {
		w.net.set(a, b, true)
		w.net.set(b, a, true)
		w.waitFault(d, 20*time.Millisecond, 700*time.Millisecond)
		w.net.set(a, b, false)
		w.net.set(b, a, false)
		w.waitFault(d, 20*time.Millisecond, 500*time.Millisecond)
	}
}

func lossyNetwork(w *World, d *rng) {
	w.net.change(func(n *network) { n.lost = 10 + d.n(250) })
	w.waitFault(d, 500*time.Millisecond, 8*time.Second)
	w.net.change(func(n *network) { n.lost = 0 })
}

func slowNetwork(w *World, d *rng) {
	w.net.change(func(n *network) { n.slow = d.between(5*time.Millisecond, 400*time.Millisecond) })
	w.waitFault(d, 500*time.Millisecond, 8*time.Second)
	w.net.change(func(n *network) { n.slow = 2 * time.Millisecond })
}

func duplicateRequests(w *World, d *rng) {
	w.net.change(func(n *network) { n.twice = 50 + d.n(300) })
	w.waitFault(d, 500*time.Millisecond, 8*time.Second)
	w.net.change(func(n *network) { n.twice = 0 })
}

// leading returns the host of the leader, or any.
func (w *World) leading(d *rng) *host {
	if l := w.leader(); l != nil {
		return l.host
	}
	return w.hosts[d.n(len(w.hosts))]
}

func (w *World) crashFor(h *host, d *rng) {
	if !h.crash() {
		return
	}
	w.waitFault(d, 10*time.Millisecond, 8*time.Second)
	h.start()
}

func crashAll(w *World, d *rng) {
	for _, h := range w.hosts {
		h.crash()
		w.waitFault(d, 0, 5*time.Millisecond)
	}
	w.waitFault(d, 10*time.Millisecond, 4*time.Second)
	for _, h := range w.hosts {
		h.start()
		w.waitFault(d, 0, 500*time.Millisecond)
	}
}

// transferLeadership transfers the leadership, as an operator does.
func (w *World) transferLeadership(d *rng) {
	l := w.leader()
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
	defer cancel()
	if err := l.node.Admin().TransferLeader(ctx, "", "sim", ""); err == nil {
		w.countFault("leader changed")
	}
}

// leaderStorm changes the leader more often than transactions take.
func leaderStorm(w *World, d *rng) {
	for range 3 + d.n(10) {
		w.transferLeadership(d)
		if d.oneIn(4) {
			w.crashFor(w.leading(d), newRNG(uint64(d.n(1<<30)), 1))
		}
		w.waitFault(d, 50*time.Millisecond, 1200*time.Millisecond)
	}
}

func (w *World) pauseFor(h *host, d *rng) {
	most := 4 * time.Second
	if d.oneIn(5) {
		most = time.Minute
	}
	if d.oneIn(2) { // the machine, not the process alone
		w.countFault("machine suspended")
		h.clock.suspend(true)
		defer h.clock.suspend(false)
		if d.oneIn(2) {
			most = time.Second // no other leader is elected
		}
	}
	h.gate.set(true)
	w.waitFault(d, 50*time.Millisecond, most)
	h.gate.set(false)
}

func slowDisk(w *World, d *rng) {
	h := w.hosts[d.n(len(w.hosts))]
	h.slow(d.between(20*time.Millisecond, 1500*time.Millisecond))
	w.waitFault(d, time.Second, 10*time.Second)
	h.slow(time.Millisecond)
}

func clockJump(w *World, d *rng) {
	h := w.hosts[d.n(len(w.hosts))]
	h.wall.Store(int64(d.between(-w.maxSkew(), w.maxSkew())))
}

func (w *World) servers() []*server { return []*server{&w.pg.server, &w.maria.server, &w.web.server} }

func participantCrashes(w *World, d *rng) {
	w.crashServer(d.n(3))
	w.waitFault(d, 50*time.Millisecond, 6*time.Second)
	w.startServers()
}

func (w *World) crashServer(i int) {
	switch i {
	case 0:
		w.pg.crash()
	case 1:
		w.maria.crash()
	default:
		w.web.crash()
	}
}

func (w *World) startServers() {
	w.pg.start()
	w.maria.start()
	w.web.start()
}

func participantCut(w *World, d *rng) {
	at := [2]int{d.n(len(w.hosts)), d.n(3)}
	w.net.change(func(n *network) { n.reads[at] = true })
	w.waitFault(d, 500*time.Millisecond, 8*time.Second)
	w.net.change(func(n *network) { delete(n.reads, at) })
}

func participantHangs(w *World, d *rng) {
	s := w.servers()[d.n(3)]
	s.configure(func(s *server) { s.hangRate = 50 + d.n(400) })
	w.waitFault(d, 500*time.Millisecond, 5*time.Second)
	s.configure(func(s *server) { s.hangRate = 0 })
}

func participantLosesAnswers(w *World, d *rng) {
	s := w.servers()[d.n(3)]
	s.configure(func(s *server) { s.lossRate = 100 + d.n(500) })
	w.waitFault(d, 500*time.Millisecond, 5*time.Second)
	s.configure(func(s *server) { s.lossRate = 0 })
}

// hangWorkers makes calls of phase two hang, while another node is elected.
func hangWorkers(w *World, d *rng) {
	for _, s := range w.servers() {
		s.configure(func(s *server) { s.hangRate = 500 })
	}
	w.waitFault(d, 300*time.Millisecond, 1500*time.Millisecond)
	if d.oneIn(2) {
		w.transferLeadership(d)
	} else if h := w.leading(d); d.oneIn(2) {
		w.crashFor(h, d)
	} else {
		for i := range w.hosts {
			if i != h.index {
				w.net.set(h.index, i, true)
			}
		}
		w.waitFault(d, 3*time.Second, 6*time.Second)
		for i := range w.hosts {
			w.net.set(h.index, i, false)
		}
	}
	for _, s := range w.servers() {
		s.configure(func(s *server) { s.hangRate = 0 })
	}
}

// heal ends all faults.
func (w *World) heal() {
	w.net.heal()
	for _, s := range w.servers() {
		s.configure(func(s *server) { s.hangRate, s.lossRate, s.maxDelay = 0, 0, time.Millisecond })
	}
	w.startServers()
	for _, h := range w.hosts {
		h.clock.suspend(false)
		h.gate.set(false)
		h.diskFault.Store(diskHealthy)
		h.slow(time.Millisecond)
		h.start()
	}
}
