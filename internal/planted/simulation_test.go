package planted

// Bugs that only meet their day when much happens at once. Every one is looked for by
// the same runs.
var forTheSimulation = []plant{
	{
		name:   "a leader reads without asking, found by chance",
		breaks: "a read shows what was acknowledged before it",
		file:   "node/verify.go",
		old:    "if err := n.reads.verify(ctx); err != nil {",
		bug:    "if err := ctx.Err(); err != nil {",
		pkg:    "internal/sim", test: "TestSim", says: "violates", env: someSeeds,
	},
	{
		name:   "a follower keeps its own higher count, found by chance",
		breaks: "no transaction is timed out early after a failover",
		file:   "node/clock.go",
		old:    "tick > counted || !own {",
		bug:    "tick > counted {",
		pkg:    "internal/sim", test: "TestSim", says: "violates", env: someSeeds,
	},
	{
		name:   "an entry that was lost with its leader counts as done",
		breaks: "what was acknowledged stays",
		file:   "node/batch.go",
		old:    "if err := f.future.Error(); err != nil {",
		bug:    "if err := f.future.Error(); errors.Is(err, raft.ErrLeadershipLost) {\n\t\tf.batch.answer(make([]machine.Result, f.batch.commands), nil)\n\t\treturn\n\t} else if err != nil {",
		pkg:    "internal/sim", test: "TestSim", says: "violates", env: someSeeds,
	},
}

const someSeeds = "TXMGR_SIM_SEEDS=60"
