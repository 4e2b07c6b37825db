package planted

var ofTheTimeouts = []plant{
	{
		name:   "a check leaves behind what it has completed",
		breaks: "after a check the list of its key has no watcher of a request that is over",
		file:   "timeout/purgatory/walk.go",
		old:    "w.ended = w.ended || w.last != nil && w.last.Done()",
		bug:    "w.ended = w.ended || w.last != nil && false",
		pkg:    "timeout/purgatory", test: "TestCheckRemovesWhatItCompletes", says: "1 requests of 1 completed: 1 watchers are left in the list of the key, want 0",
	},
	{
		name:   "a check where nothing is parked cleans nothing",
		breaks: "after a check the list of its key has no watcher of a request that is over",
		file:   "timeout/purgatory/purgatory.go",
		old:    "if s.entries.Load() == 0 {",
		bug:    "if p.clock.parked.Load() == 0 {",
		pkg:    "timeout/purgatory", test: "TestCheckCleansWhereNothingIsParked", says: "nothing is parked: a check has left 15 watchers, want 10",
	},
}
