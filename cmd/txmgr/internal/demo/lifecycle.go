package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// open starts the coordinator and registers the databases.
func (t *demo) open(ctx context.Context) error {
	if err := t.nodes.start(ctx); err != nil {
		return err
	}
	m, err := client.Dial(t.nodes.addresses())
	if err != nil {
		return err
	}
	t.m = m
	// Another node may not know the cluster id yet, without which no prepared branch would be
	// found.
	_, status, err := t.nodes.awaitLeader(ctx)
	if err != nil {
		return err
	}
	t.cluster = status.Cluster
	t.used = map[string]int64{}
	for i, db := range t.dbs {
		t.expected[i] = openingBalances()
		if err := db.create(ctx, t.expected[i]); err != nil {
			return fmt.Errorf("create the accounts of %s: %w", db.name(), err)
		}
		p := db.registration()
		if err := t.m.Admin().AddParticipant(ctx, p, "", ""); err != nil {
			return err
		}
		if err := t.m.Admin().TestParticipant(ctx, p.Name); err != nil {
			return err
		}
		t.summary.Databases = append(t.summary.Databases, Database{Name: p.Name, Kind: p.Kind, What: db.describe()})
	}
	p := t.service.registration()
	t.summary.Databases = append(t.summary.Databases, Database{Name: p.Name, Kind: p.Kind, What: t.service.describe()})
	if err := t.m.Admin().AddParticipant(ctx, p, "", ""); err != nil {
		return err
	}
	return t.m.Admin().TestParticipant(ctx, p.Name)
}

// close finishes open transactions, of which there are several only after an interruption, and
// closes the databases; what the demo created in them is removed.
func (t *demo) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), idleTimeout)
	defer cancel()
	var errs []error
	if t.m != nil {
		errs = append(errs, t.finish(ctx), t.m.Close())
	}
	errs = append(errs, t.nodes.stop()) // the coordinator drains while the databases still run
	for _, db := range t.dbs {
		errs = append(errs, db.close(ctx))
	}
	return errors.Join(errs...)
}

// finish leaves nothing prepared in databases that outlive the demo.
func (t *demo) finish(ctx context.Context) error {
	if err := t.nodes.start(ctx); err != nil {
		return err
	}
	open, err := t.m.List(ctx, admin.Filter{States: []txn.State{txn.Active, txn.Preparing}})
	if err != nil {
		return err
	}
	for _, x := range open {
		if _, err := t.m.Rollback(ctx, x.ID, "the demo ends"); err != nil && !errors.Is(err, txn.ErrConflict) {
			return err
		}
	}
	return t.awaitIdle(ctx)
}

func (t *demo) banner(s *environment) {
	for _, db := range t.dbs {
		t.reporter.printf("%-12s %s, %d accounts with a balance of %d", db.name(), db.describe(), accounts, openingBalance)
	}
	t.reporter.printf("%-12s %s, allows withdrawals of at most %d per account", serviceName, t.service.describe(), dailyLimit)
	what := "coordinator"
	for _, c := range t.nodes.nodes {
		if t.nodes.clustered() {
			what = "node " + c.name
		}
		t.reporter.printf("%-12s %s, process %d", what, c.address(), c.pid())
	}
	t.reporter.printf("%-12s %s", "shows", s.claim)
}

// childEnvironment is the environment without the variables that configure a server: only the demo
// configures its coordinator.
func childEnvironment(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool { return strings.HasPrefix(e, "TXMGR_") })
}
