package main

import (
	"context"
	"errors"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
	"github.com/txmgr/txmgr/bench/peers/internal/slowdisk"
	"github.com/txmgr/txmgr/txn/admin"
)

// usage is processor time by group of processes.
type usage struct {
	Application time.Duration `json:"application_ns"` // this program, with an embedded coordinator
	Coordinator time.Duration `json:"coordinator_ns"` // its processes
	PostgreSQL  time.Duration `json:"postgresql_ns"`
	MariaDB     time.Duration `json:"mariadb_ns"`
}

func (u usage) all() time.Duration { return u.Application + u.Coordinator + u.PostgreSQL + u.MariaDB }

// since is what was used after the earlier reading, for each of several transactions.
func (u usage) since(earlier usage, transactions int) usage {
	each := func(now, then time.Duration) time.Duration { return (now - then) / time.Duration(transactions) }
	return usage{
		Application: each(u.Application, earlier.Application), Coordinator: each(u.Coordinator, earlier.Coordinator),
		PostgreSQL: each(u.PostgreSQL, earlier.PostgreSQL), MariaDB: each(u.MariaDB, earlier.MariaDB),
	}
}

// logged is what the log of a coordinator has written: so far, or for each transaction.
type logged struct {
	// Entries are those that its nodes have proposed, with those of ticks.
	Entries float64 `json:"entries"`
	// Syncs are the synchronisations of the disk by the log, of all nodes together.
	Syncs float64 `json:"syncs"`
}

// readLog is the only place that knows where the figures come from.
func readLog(nodes []admin.Status) (l logged) {
	for _, s := range nodes {
		l.Entries += float64(s.Entries)
		l.Syncs += float64(s.Syncs)
	}
	return l
}

func (l logged) since(earlier logged, transactions int) logged {
	n := float64(transactions)
	return logged{Entries: (l.Entries - earlier.Entries) / n, Syncs: (l.Syncs - earlier.Syncs) / n}
}

// reading is the state of all meters at one moment.
type reading struct {
	usage
	logged
}

// read reads the meters of a site; disk is nil unless it delays synchronisations.
func (f *contest) read(ctx context.Context, s *site, disk *slowdisk.Disk) (m reading, err error) {
	var errs [4]error
	m.Application, errs[0] = rig.OwnCPU()
	if disk != nil {
		m.Application -= disk.CPU()
	}
	m.PostgreSQL, m.MariaDB, errs[1] = f.databases.cpu()
	if s.coordinator != nil {
		m.Coordinator, errs[2] = s.coordinator.cpu()
		var nodes []admin.Status
		nodes, errs[3] = s.coordinator.statuses(ctx)
		m.logged = readLog(nodes)
	}
	return m, errors.Join(errs[:]...)
}
