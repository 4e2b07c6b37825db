package sim

import (
	"context"
	"time"
)

// fault is something that can go wrong, for a while.
type fault struct {
	name     string
	do       func(w *World, d *dice)
	restless bool // it brings many leaders, and late news of them
}

// faults are all that a run can draw. Each counts itself when it has happened.
func faults() []fault {
	return []fault{
		{name: "cut one way", do: func(w *World, d *dice) { w.cut(d, false) }},
		{name: "cut both ways", do: func(w *World, d *dice) { w.cut(d, true) }},
		{name: "cut off a node", do: cutOff},
		{name: "cut in a ring", do: cutRing},
		{name: "flapping", do: flapping},
		{name: "messages lost", do: lossy},
		{name: "messages slow", do: slowly, restless: true},
		{name: "messages twice", do: twice},
		{name: "node crashes", do: func(w *World, d *dice) { w.crashFor(w.hosts[d.n(len(w.hosts))], d) }},
		{name: "leader crashes", do: func(w *World, d *dice) { w.crashFor(w.leading(d), d) }},
		{name: "all nodes crash", do: crashAll},
		{name: "leadership handed over", do: func(w *World, d *dice) { w.handOver(d) }, restless: true},
		{name: "leaders change all the time", do: storm, restless: true},
		{name: "node paused", do: func(w *World, d *dice) { w.pauseFor(w.hosts[d.n(len(w.hosts))], d) }},
		{name: "leader paused", do: func(w *World, d *dice) { w.pauseFor(w.leading(d), d) }},
		{name: "slow disk", do: slowDisk, restless: true},
		{name: "disk full", do: func(w *World, d *dice) { ail(w, d, full) }},
		{name: "disk fails", do: func(w *World, d *dice) { ail(w, d, failing) }},
		{name: "wall clock jumps", do: jump},
		{name: "participant crashes", do: participantCrashes},
		{name: "participant out of reach", do: participantCut},
		{name: "participant hangs", do: participantHangs},
		{name: "participant's answers lost", do: participantDeaf},
		{name: "leader replaced while its workers hang", do: heldWorkers},
		{name: "snapshot asked for", do: func(w *World, d *dice) {
			if l := w.hosts[d.n(len(w.hosts))].alive(); l != nil {
				_ = l.node.Snapshot()
			}
		}},
	}
}

// torment lets faults happen until it is told that it is enough. Each run has some
// kinds only, so that some have much of few; and some only what makes elections overlap.
func (w *World) torment(until time.Duration) {
	d := newDice(w.plan.Seed, 3)
	var mine []fault
	restless := d.one(8)
	for _, f := range faults() {
		if restless && f.restless || !restless && d.one(2) {
			mine = append(mine, f)
		}
	}
	pace := d.between(300*time.Millisecond, 3*time.Second)
	rest(d.between(0, 3*time.Second))
	for w.now() < until && len(mine) > 0 {
		f := mine[d.n(len(mine))]
		w.tell("fault: %s", f.name)
		w.fire(f.name)
		of := newDice(w.plan.Seed, uint64(d.n(1<<30)))
		w.all.Go(func() { f.do(w, of) })
		rest(d.between(pace/10, 2*pace))
	}
}

// while waits as long as a fault lasts.
func (w *World) while(d *dice, least, most time.Duration) { restIn(w.ctx, d.between(least, most)) }

func (w *World) pair(d *dice) (a, b int) {
	a = d.n(len(w.hosts))
	return a, (a + 1 + d.n(len(w.hosts)-1)) % len(w.hosts)
}

func (w *World) cut(d *dice, both bool) {
	a, b := w.pair(d)
	w.net.set(a, b, true)
	if both {
		w.net.set(b, a, true)
	}
	w.while(d, 100*time.Millisecond, 8*time.Second)
	w.net.set(a, b, false)
	w.net.set(b, a, false)
}

func cutOff(w *World, d *dice) {
	h := w.hosts[d.n(len(w.hosts))]
	if d.one(2) {
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
	w.while(d, 200*time.Millisecond, 15*time.Second)
	all(false)
}

// cutRing leaves everybody with two neighbours, or, of three nodes, one pair apart.
func cutRing(w *World, d *dice) {
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
	w.while(d, time.Second, 12*time.Second)
	ring(false)
}

func flapping(w *World, d *dice) {
	a, b := w.pair(d)
	for range 4 + d.n(20) {
		w.net.set(a, b, true)
		w.net.set(b, a, true)
		w.while(d, 20*time.Millisecond, 700*time.Millisecond)
		w.net.set(a, b, false)
		w.net.set(b, a, false)
		w.while(d, 20*time.Millisecond, 500*time.Millisecond)
	}
}

func lossy(w *World, d *dice) {
	w.net.change(func(n *network) { n.lost = 10 + d.n(250) })
	w.while(d, 500*time.Millisecond, 8*time.Second)
	w.net.change(func(n *network) { n.lost = 0 })
}

func slowly(w *World, d *dice) {
	w.net.change(func(n *network) { n.slow = d.between(5*time.Millisecond, 400*time.Millisecond) })
	w.while(d, 500*time.Millisecond, 8*time.Second)
	w.net.change(func(n *network) { n.slow = 2 * time.Millisecond })
}

func twice(w *World, d *dice) {
	w.net.change(func(n *network) { n.twice = 50 + d.n(300) })
	w.while(d, 500*time.Millisecond, 8*time.Second)
	w.net.change(func(n *network) { n.twice = 0 })
}

// leading gives the host that leads, or any.
func (w *World) leading(d *dice) *host {
	if l := w.leader(); l != nil {
		return l.host
	}
	return w.hosts[d.n(len(w.hosts))]
}

func (w *World) crashFor(h *host, d *dice) {
	if !h.crash() {
		return
	}
	w.while(d, 10*time.Millisecond, 8*time.Second)
	h.start()
}

func crashAll(w *World, d *dice) {
	for _, h := range w.hosts {
		h.crash()
		w.while(d, 0, 5*time.Millisecond)
	}
	w.while(d, 10*time.Millisecond, 4*time.Second)
	for _, h := range w.hosts {
		h.start()
		w.while(d, 0, 500*time.Millisecond)
	}
}

// handOver moves the leadership, as an operator does.
func (w *World) handOver(d *dice) {
	l := w.leader()
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
	defer cancel()
	if err := l.node.TransferLeader(ctx, ""); err == nil {
		w.fire("leader changed")
	}
}

// storm changes the leader more often than transactions take.
func storm(w *World, d *dice) {
	for range 3 + d.n(10) {
		w.handOver(d)
		if d.one(4) {
			w.crashFor(w.leading(d), newDice(uint64(d.n(1<<30)), 1))
		}
		w.while(d, 50*time.Millisecond, 1200*time.Millisecond)
	}
}

func (w *World) pauseFor(h *host, d *dice) {
	most := 4 * time.Second
	if d.one(5) {
		most = time.Minute
	}
	if d.one(2) { // the machine, and not the process alone
		w.fire("machine suspended")
		h.ticks.suspend(true)
		defer h.ticks.suspend(false)
		if d.one(2) {
			most = time.Second // nobody else is elected
		}
	}
	h.gate.set(true)
	w.while(d, 50*time.Millisecond, most)
	h.gate.set(false)
}

func slowDisk(w *World, d *dice) {
	h := w.hosts[d.n(len(w.hosts))]
	h.slow(d.between(20*time.Millisecond, 1500*time.Millisecond))
	w.while(d, time.Second, 10*time.Second)
	h.slow(time.Millisecond)
}

func jump(w *World, d *dice) {
	h := w.hosts[d.n(len(w.hosts))]
	h.wall.Store(int64(d.between(-w.mostSkew(), w.mostSkew())))
}

func (w *World) servers() []*server { return []*server{&w.pg.server, &w.maria.server, &w.web.server} }

func participantCrashes(w *World, d *dice) {
	w.crashServer(d.n(3))
	w.while(d, 50*time.Millisecond, 6*time.Second)
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

func participantCut(w *World, d *dice) {
	at := [2]int{d.n(len(w.hosts)), d.n(3)}
	w.net.change(func(n *network) { n.reads[at] = true })
	w.while(d, 500*time.Millisecond, 8*time.Second)
	w.net.change(func(n *network) { delete(n.reads, at) })
}

func participantHangs(w *World, d *dice) {
	s := w.servers()[d.n(3)]
	s.bad(func(s *server) { s.held = 50 + d.n(400) })
	w.while(d, 500*time.Millisecond, 5*time.Second)
	s.bad(func(s *server) { s.held = 0 })
}

func participantDeaf(w *World, d *dice) {
	s := w.servers()[d.n(3)]
	s.bad(func(s *server) { s.deaf = 100 + d.n(500) })
	w.while(d, 500*time.Millisecond, 5*time.Second)
	s.bad(func(s *server) { s.deaf = 0 })
}

// heldWorkers lets calls of phase two hang, and meanwhile somebody else lead.
func heldWorkers(w *World, d *dice) {
	for _, s := range w.servers() {
		s.bad(func(s *server) { s.held = 500 })
	}
	w.while(d, 300*time.Millisecond, 1500*time.Millisecond)
	if d.one(2) {
		w.handOver(d)
	} else if h := w.leading(d); d.one(2) {
		w.crashFor(h, d)
	} else {
		for i := range w.hosts {
			if i != h.index {
				w.net.set(h.index, i, true)
			}
		}
		w.while(d, 3*time.Second, 6*time.Second)
		for i := range w.hosts {
			w.net.set(h.index, i, false)
		}
	}
	for _, s := range w.servers() {
		s.bad(func(s *server) { s.held = 0 })
	}
}

// heal ends all faults.
func (w *World) heal() {
	w.net.heal()
	for _, s := range w.servers() {
		s.bad(func(s *server) { s.held, s.deaf, s.slow = 0, 0, time.Millisecond })
	}
	w.startServers()
	for _, h := range w.hosts {
		h.ticks.suspend(false)
		h.gate.set(false)
		h.ails.Store(healthy)
		h.slow(time.Millisecond)
		h.start()
	}
}
