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

// stage is the databases of a tour and whatever had to be started for them.
type stage struct {
	dbs     [2]database
	proves  string
	closing []func() error
}

func (s *stage) close() error {
	var errs []error
	for _, f := range slices.Backward(s.closing) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// closeOn closes what was started when err came instead of a stage.
func (s *stage) closeOn(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(err, s.close())
}

// Names of the databases that the tour makes itself.
var names = [2]string{"bank", "savings"}

// openStage finds, or starts, the databases. dir is the tour's own directory.
func openStage(ctx context.Context, c Config, dir string) (*stage, error) {
	switch c.Databases {
	case "", "auto":
		s, err := scratchStage(ctx, c.Story, dir)
		if err == nil || ctx.Err() != nil {
			return s, err
		}
		c.Story.say("no private PostgreSQL (%v): the databases are embedded ledgers", brief(err))
		return ledgerStage(dir), nil
	case "embedded":
		return ledgerStage(dir), nil
	case "scratch":
		return scratchStage(ctx, c.Story, dir)
	}
	return givenStage(ctx, c.Databases, dir)
}

// brief is the first line of an error.
func brief(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func ledgerStage(dir string) *stage {
	return &stage{
		dbs: [2]database{newLedgerDatabase(names[0], dir), newLedgerDatabase(names[1], dir)},
		proves: "atomic commit over two stores with a true prepare phase, fsync included; " +
			"--databases scratch shows it on two real PostgreSQL databases",
	}
}

// open starts the coordinator and introduces the databases to it.
func (t *tour) open(ctx context.Context) error {
	if err := t.coordinator.start(ctx); err != nil {
		return err
	}
	m, err := client.Dial(t.coordinator.address)
	if err != nil {
		return err
	}
	t.m = m
	status, err := t.m.Status(ctx)
	if err != nil {
		return err
	}
	t.cluster = status.Cluster
	for i, db := range t.dbs {
		t.book[i] = openingBalances()
		if err := db.create(ctx, t.book[i]); err != nil {
			return fmt.Errorf("make the accounts of %s: %w", db.name(), err)
		}
		p := db.registration()
		if err := t.m.AddParticipant(ctx, p); err != nil {
			return err
		}
		if err := t.m.TestParticipant(ctx, p.Name); err != nil {
			return err
		}
		t.summary.Databases = append(t.summary.Databases, Database{Name: p.Name, Kind: p.Kind, What: db.what()})
	}
	return nil
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
	for _, db := range t.dbs {
		errs = append(errs, db.close(ctx))
	}
	return errors.Join(errs...)
}

// finish leaves nothing prepared in databases that outlive the tour.
func (t *tour) finish(ctx context.Context) error {
	if t.coordinator.run == nil {
		if err := t.coordinator.start(ctx); err != nil {
			return err
		}
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
	t.story.say("%-12s %s, process %d", "coordinator", t.coordinator.address, t.coordinator.pid())
	t.story.say("%-12s %s", "shows", s.proves)
}

// childEnvironment is the environment without what would configure a server: the
// tour's own coordinator is as the tour made it.
func childEnvironment(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool { return strings.HasPrefix(e, "TXMGR_") })
}

// parseGiven reads NAME=DSN,NAME=DSN. A DSN may hold commas: what follows a
// comma begins a database only when it begins like one.
func parseGiven(list string) (given [2]struct{ name, dsn string }, err error) {
	wrong := fmt.Errorf("%w: --databases wants auto, embedded, scratch, or two databases as NAME=DSN,NAME=DSN", txn.ErrInvalid)
	n := 0
	for part := range strings.SplitSeq(list, ",") {
		name, dsn, ok := strings.Cut(part, "=")
		switch {
		case ok && txn.CheckParticipantName(name) == nil && strings.Contains(dsn, "://"):
			if n == len(given) {
				return given, wrong
			}
			given[n].name, given[n].dsn = name, dsn
			n++
		case n > 0:
			given[n-1].dsn += "," + part
		default:
			return given, wrong
		}
	}
	if n != len(given) || given[0].name == given[1].name {
		return given, wrong
	}
	return given, nil
}
