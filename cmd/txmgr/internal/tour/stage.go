package tour

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/txn"
)

// open starts the coordinator and introduces the databases to it.
func (t *tour) open(ctx context.Context) error {
	if err := t.fleet.start(ctx); err != nil {
		return err
	}
	m, err := client.Dial(t.fleet.addresses())
	if err != nil {
		return err
	}
	t.m = m
	// Another node may not have heard yet what the cluster's tag is, without which
	// nothing prepared would be found.
	_, status, err := t.fleet.awaitLeader(ctx)
	if err != nil {
		return err
	}
	t.cluster = status.Cluster
	t.used = map[string]int64{}
	for i, db := range t.dbs {
		t.book[i] = openingBalances()
		if err := db.create(ctx, t.book[i]); err != nil {
			return fmt.Errorf("make the accounts of %s: %w", db.name(), err)
		}
		p := db.registration()
		if err := t.m.AddParticipant(ctx, p, "", ""); err != nil {
			return err
		}
		if err := t.m.TestParticipant(ctx, p.Name); err != nil {
			return err
		}
		t.summary.Databases = append(t.summary.Databases, Database{Name: p.Name, Kind: p.Kind, What: db.what()})
	}
	p := t.service.registration()
	t.summary.Databases = append(t.summary.Databases, Database{Name: p.Name, Kind: p.Kind, What: t.service.what()})
	if err := t.m.AddParticipant(ctx, p, "", ""); err != nil {
		return err
	}
	return t.m.TestParticipant(ctx, p.Name)
}

// close finishes what is open, which is much only after an interruption, and
// lets the databases go; what was made in them is removed.
func (t *tour) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), settlePatience)
	defer cancel()
	var errs []error
	if t.m != nil {
		errs = append(errs, t.finish(ctx), t.m.Close())
	}
	errs = append(errs, t.fleet.stop()) // it looks after the databases, while they are there
	for _, db := range t.dbs {
		errs = append(errs, db.close(ctx))
	}
	return errors.Join(errs...)
}

// finish leaves nothing prepared in databases that outlive the tour.
func (t *tour) finish(ctx context.Context) error {
	if err := t.fleet.start(ctx); err != nil {
		return err
	}
	open, err := t.m.List(ctx, txn.Filter{States: []txn.State{txn.Active, txn.Preparing}})
	if err != nil {
		return err
	}
	for _, x := range open {
		if _, err := t.m.Rollback(ctx, x.ID, "the tour ends"); err != nil && !errors.Is(err, txn.ErrConflict) {
			return err
		}
	}
	return t.settle(ctx)
}

func (t *tour) banner(s *stage) {
	for _, db := range t.dbs {
		t.story.say("%-12s %s, %d accounts with %d each", db.name(), db.what(), accounts, opening)
	}
	t.story.say("%-12s %s: at most %d may leave an account", serviceName, t.service.what(), dailyLimit)
	what := "coordinator"
	for _, c := range t.fleet.nodes {
		if t.fleet.several() {
			what = "node " + c.name
		}
		t.story.say("%-12s %s, process %d", what, c.address(), c.pid())
	}
	t.story.say("%-12s %s", "shows", s.proves)
}

// childEnvironment is the environment without what would configure a server: the
// tour's own coordinator is as the tour made it.
func childEnvironment(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool { return strings.HasPrefix(e, "TXMGR_") })
}
