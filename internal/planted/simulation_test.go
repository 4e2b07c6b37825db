package planted

// Bugs that meet their day when much happens at once, looked for by the runs of the
// simulation.
var forTheSimulation = []plant{
	{
		name:   "the deadline decides over the last of several branches, found by chance",
		breaks: "the branch that was appointed decides, and no other",
		file:   "txn/machine/expiry.go",
		old:    "if m.txs.At(i).is(delegated) {\n\t\tm.findOut(i, cause)",
		bug:    "if r := m.txs.At(i); r.is(delegated) && r.count == 1 {\n\t\tm.findOut(i, cause)",
		pkg:    "internal/sim", test: "TestSim", says: "violates", env: someSeeds,
	},
	{
		name:   "a follower keeps its own higher count, found by chance",
		breaks: "no transaction is timed out early after a failover",
		file:   "node/ticks/clock.go",
		old:    "if own && tick <= counted && !c.at.IsZero() {",
		bug:    "if tick <= counted && !c.at.IsZero() {",
		pkg:    "internal/sim", test: "TestSim", says: "violates", env: someSeeds,
	},
	{
		name:   "an answer comes before the entry is committed, found by chance",
		breaks: "what was acknowledged stays",
		file:   "node/proposal/sender.go",
		old:    "q.inflightCh <- f\n",
		bug:    "b.answer(make([]machine.Result, b.commands), nil)\n\t\t\tb.callers = nil\n\t\t\tq.inflightCh <- f\n",
		pkg:    "internal/sim", test: "TestSim", says: "violates", env: someSeeds,
	},
	{
		name:   "sessions are heard for half their time",
		breaks: "no session expires early",
		file:   "node/sessions/expirer.go",
		old:    "every := g.ttl / slotsPerTTL",
		bug:    "every := g.ttl / slotsPerTTL / 2",
		pkg:    "internal/sim", test: "TestSim", says: "violates", env: someSeeds,
	},
	{
		name:   "an entry that was lost with its leader counts as done",
		breaks: "what was acknowledged stays",
		file:   "node/proposal/sender.go",
		old:    "if err := f.future.Error(); err != nil {",
		bug:    "if err := f.future.Error(); errors.Is(err, raft.ErrLeadershipLost) {\n\t\treturn make([]machine.Result, f.batch.commands), nil\n\t} else if err != nil {",
		pkg:    "internal/sim", test: "TestSim", says: "violates", env: someSeeds,
	},
	{
		name:   "a forgotten transaction is begun again, found by chance",
		breaks: "an id is that of one transaction, also when its outcome is forgotten",
		file:   "txn/machine/horizon.go",
		old:    "|| id.Tick <= uint64(m.RetentionHorizon())",
		bug:    "|| id.Tick == uint64(m.RetentionHorizon())",
		pkg:    "internal/sim", test: "TestSim", says: "and forgotten, lives again", env: someSeeds,
	},
	{
		name:   "a follower is sent the same snapshot for ever, whatever is lost",
		breaks: "a follower catches up",
		file:   "node/raftguard/repeated_snapshot.go",
		old:    "if i.times < maxRepeatedInstalls {",
		bug:    "if i.times < 1<<30*maxRepeatedInstalls {",
		pkg:    "internal/sim", test: "TestFollowerCatchesUpAfterSnapshot", says: "after the network was whole: the follower has applied ",
	},
}

const someSeeds = "TXMGR_SIM_SEEDS=40"
