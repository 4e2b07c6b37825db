package main

import "context"

// contender is one way to do the work.
type contender struct {
	Key  string `json:"key"`
	Name string `json:"name"`
	// Beside is the key of the contender that its figures are divided by; "" for those that others
	// are compared with.
	Beside string `json:"beside,omitempty"`
	Place  place  `json:"coordinator"`

	work    func(*site) work
	callers []int // how many at once; nil is what -workers tells
}

// work is what the callers of a contender do.
type work struct {
	// once is one transaction; worker is from 0 on, and each has a row of its own.
	once func(ctx context.Context, worker int) error
	// relay is what else runs meanwhile; nil if nothing does.
	relay *relay
}

// place is where the coordinator runs.
type place string

const (
	nowhere  place = "none"
	process  place = "server"   // in one process of its own
	embedded place = "embedded" // in this process
	cluster  place = "three"    // in three processes
)

// all is the list of contenders. Another one is another line, behind what it is compared with. A new
// way of committing that is chosen by an option is a method of txmgr in txmgr.go, and a line for each
// place.
var all = []*contender{
	{Key: "manual", Name: "manual, one after the other", Place: nowhere, work: by((*manualCommit).sequential)},
	{Key: "manual-at-once", Name: "manual, both at once", Beside: "manual", Place: nowhere, work: by((*manualCommit).parallel)},
	{Key: "local", Name: "two local transactions", Beside: "manual", Place: nowhere, work: by((*manualCommit).twoLocal)},
	{Key: "outbox", Name: "manual outbox", Beside: "manual", Place: nowhere, work: outboxOf},
	{Key: "server", Name: "txmgr server", Beside: "manual", Place: process, work: through((*txmgr).pair)},
	{Key: "server-decision", Name: "txmgr server, on decision", Beside: "manual", Place: process, work: through((*txmgr).decision)},
	{Key: "server-last", Name: "txmgr server, the last decides", Beside: "manual", Place: process, work: through((*txmgr).last)},
	{Key: "embedded", Name: "txmgr embedded", Beside: "manual", Place: embedded, work: through((*txmgr).pair)},
	{Key: "embedded-decision", Name: "txmgr embedded, on decision", Beside: "manual", Place: embedded, work: through((*txmgr).decision)},
	{Key: "embedded-last", Name: "txmgr embedded, the last decides", Beside: "manual", Place: embedded, work: through((*txmgr).last)},
	{Key: "three", Name: "txmgr, three servers", Beside: "manual", Place: cluster, work: through((*txmgr).pair)},
	{Key: "three-decision", Name: "txmgr, three servers, on decision", Beside: "manual", Place: cluster, work: through((*txmgr).decision)},
	{Key: "three-last", Name: "txmgr, three servers, the last decides", Beside: "manual", Place: cluster, work: through((*txmgr).last)},

	{Key: "pg", Name: "PostgreSQL, plain COMMIT", Place: nowhere, work: by((*manualCommit).plainPG)},
	{Key: "pg-marker", Name: "PostgreSQL, with a marker row", Beside: "pg", Place: nowhere, work: by((*manualCommit).markedPG)},
	{Key: "pg-server", Name: "PostgreSQL, txmgr server", Beside: "pg", Place: process, work: through((*txmgr).onlyPG)},
	{Key: "pg-embedded", Name: "PostgreSQL, txmgr embedded", Beside: "pg", Place: embedded, work: through((*txmgr).onlyPG)},

	{Key: "mariadb", Name: "MariaDB, plain COMMIT", Place: nowhere, work: by((*manualCommit).plainMy)},
	{Key: "mariadb-marker", Name: "MariaDB, with a marker row", Beside: "mariadb", Place: nowhere, work: by((*manualCommit).markedMy)},
	{Key: "mariadb-server", Name: "MariaDB, txmgr server", Beside: "mariadb", Place: process, work: through((*txmgr).onlyMy)},
	{Key: "mariadb-embedded", Name: "MariaDB, txmgr embedded", Beside: "mariadb", Place: embedded, work: through((*txmgr).onlyMy)},

	{Key: "alone-server", Name: "begin and commit, server", Place: process, callers: alone, work: through((*txmgr).empty)},
	{Key: "alone-embedded", Name: "begin and commit, embedded", Beside: "alone-server", Place: embedded, callers: alone, work: through((*txmgr).empty)},
	{Key: "alone-three", Name: "begin and commit, three servers", Beside: "alone-server", Place: cluster, callers: alone, work: through((*txmgr).empty)},
}

// alone is how many callers the coordinator alone has: a lone one, and many.
var alone = []int{1, 64}

func by(once func(*manualCommit, context.Context, int) error) func(*site) work {
	return func(s *site) work {
		return work{once: func(ctx context.Context, worker int) error { return once(s.manual, ctx, worker) }}
	}
}

func through(once func(*txmgr, context.Context, int) error) func(*site) work {
	return func(s *site) work {
		return work{once: func(ctx context.Context, worker int) error { return once(s.txmgr, ctx, worker) }}
	}
}

func outboxOf(s *site) work { return work{once: s.outbox.once, relay: s.outbox.relay} }

func keys(of []*contender) (out []string) {
	for _, c := range of {
		out = append(out, c.Key)
	}
	return out
}
