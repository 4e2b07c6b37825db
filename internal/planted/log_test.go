package planted

var ofTheLog = []plant{
	{
		name:   "the log is not synced",
		breaks: "what was acknowledged is on the disk",
		file:   "raftfsm/logstore/open.go",
		old:    "NoFreelistSync: true,",
		bug:    "NoFreelistSync: true, NoSync: true,",
		pkg:    "raftfsm/logstore", test: "TestFirstErrorStops",
	},
	{
		name:   "the log goes on after an I/O error",
		breaks: "nothing is acknowledged after the first I/O error",
		file:   "raftfsm/logstore/store.go",
		old:    "if s.failed.CompareAndSwap(nil, f) {",
		bug:    "if new(atomic.Pointer[failure]).CompareAndSwap(nil, f) {",
		pkg:    "raftfsm/logstore", test: "TestFirstErrorStops",
	},
	{
		name:   "an entry that cannot be read is passed over",
		breaks: "a node whose state has a gap stops",
		file:   "raftfsm/fsm.go",
		old:    "f.failure = err\n",
		bug:    "_ = err\n",
		pkg:    "raftfsm", test: "TestApplyStopsAtBadEntry",
	},
	{
		name:   "the log store takes an entry for good without its checksum",
		breaks: "a flipped bit is noticed",
		file:   "raftfsm/logstore/codec.go",
		old:    "if sum != checksum(key[:], v[sumBytes:]) {",
		bug:    "if false && sum != checksum(key[:], v[sumBytes:]) {",
		pkg:    "raftfsm/logstore", test: "TestEntryBitFlips",
	},
	{
		name:   "an entry's checksum is not compared",
		breaks: "a flipped bit is noticed",
		file:   "raftfsm/entry.go",
		old:    "binary.LittleEndian.Uint32(data[atSum:]); got != want {",
		bug:    "binary.LittleEndian.Uint32(data[atSum:]); false && got != want {",
		pkg:    "raftfsm", test: "TestBitFlips",
	},
	{
		name:   "an older file passes for the latest",
		breaks: "a write that was lost is noticed",
		file:   "raftfsm/logstore/audit.go",
		old:    "if c.record != want {",
		bug:    "if false && c.record != want {",
		pkg:    "raftfsm/logstore", test: "TestLostPageWrite",
	},
}
