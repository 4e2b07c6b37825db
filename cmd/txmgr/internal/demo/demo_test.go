package demo

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// stubDatabase returns the contents that it is given.
type stubDatabase struct {
	holds map[string]int64
	left  []string
	err   error
}

func (d *stubDatabase) name() string                                       { return "stub" }
func (d *stubDatabase) describe() string                                   { return "" }
func (d *stubDatabase) registration() admin.Participant                    { return admin.Participant{} }
func (d *stubDatabase) create(context.Context, map[string]int64) error     { return nil }
func (d *stubDatabase) add(context.Context, *txn.Tx, string, int64) error  { return nil }
func (d *stubDatabase) deposit(context.Context, string, int64) error       { return nil }
func (d *stubDatabase) balances(context.Context) (map[string]int64, error) { return d.holds, d.err }
func (d *stubDatabase) prepared(context.Context, string) ([]string, error) { return d.left, nil }
func (d *stubDatabase) close(context.Context) error                        { return nil }
func (d *stubDatabase) rollbackManually(context.Context, string) (string, error) {
	return "", d.err
}

// stubService returns the amounts that it is given.
type stubService struct {
	grants map[string]int64
	held   int64
}

func (s *stubService) registration() admin.Participant                      { return admin.Participant{} }
func (s *stubService) describe() string                                     { return "" }
func (s *stubService) enlist(context.Context, *txn.Tx, string, int64) error { return nil }
func (s *stubService) used(context.Context) (map[string]int64, int64, error) {
	return s.grants, s.held, nil
}

// The check of a scenario must detect every kind of difference.
func TestAuditFindsWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(a, b *stubDatabase, s *stubService)
		found string // empty: nothing is wrong
	}{
		"all is well":        {func(a, b *stubDatabase, s *stubService) {}, ""},
		"money is lost":      {func(a, b *stubDatabase, s *stubService) { a.holds[alice]-- }, "account00 is 99, must be 100"},
		"money is moved":     {func(a, b *stubDatabase, s *stubService) { a.holds[alice]--; b.holds[alice]++ }, "account00 is 101, must be 100"},
		"moved within one":   {func(a, b *stubDatabase, s *stubService) { a.holds[accountName(7)]--; a.holds[accountName(8)]++ }, "account07 is 99, must be 100"},
		"an account is new":  {func(a, b *stubDatabase, s *stubService) { b.holds["mallory"] = 0 }, "101 accounts, must be 100"},
		"an account is gone": {func(a, b *stubDatabase, s *stubService) { delete(b.holds, alice) }, "account00 is 0, must be 100"},
		"a branch is left":   {func(a, b *stubDatabase, s *stubService) { b.left = []string{"txm_x_b1"} }, "txm_x_b1"},
		"too much granted":   {func(a, b *stubDatabase, s *stubService) { s.grants[alice]++ }, "limits: used map[account00:11], must be map[account00:10]"},
		"another is charged": {func(a, b *stubDatabase, s *stubService) { s.grants["mallory"] = 1 }, "mallory"},
		"a grant is held":    {func(a, b *stubDatabase, s *stubService) { s.held = 3 }, "3 at limits"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := &stubDatabase{holds: openingBalances()}, &stubDatabase{holds: openingBalances()}
			service := &stubService{grants: map[string]int64{alice: 10}}
			d := &demo{dbs: [2]database{a, b}, expected: expectedBalances{openingBalances(), openingBalances()}, service: service, used: map[string]int64{alice: 10}}
			d.summary.Scenarios = []Scenario{{OK: true}}
			c.spoil(a, b, service)
			if err := d.checkDatabases(t.Context()); err != nil {
				t.Fatal(err)
			}
			found := ""
			for _, check := range d.current().Checks {
				found += check.Found
			}
			if d.passed() != (c.found == "") || !strings.Contains(found, c.found) {
				t.Errorf("held: %v, found: %q", d.passed(), found)
			}
		})
	}
}

func TestChecksFailWhenADatabaseCannotBeRead(t *testing.T) {
	broken := errors.New("broken")
	db := &stubDatabase{err: broken}
	d := &demo{dbs: [2]database{db, db}, expected: expectedBalances{openingBalances(), openingBalances()}}
	d.summary.Scenarios = []Scenario{{OK: true}}
	if err := d.checkDatabases(t.Context()); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestDatabasesThatAreGiven(t *testing.T) {
	type given = [2]struct{ name, dsn string }
	for list, want := range map[string]given{
		"bank=postgres://h/a,stock=postgres://h/b":           {{"bank", "postgres://h/a"}, {"stock", "postgres://h/b"}},
		"bank=postgres://h/a,shop=u:p@tcp(h:3306)/b?x=1":     {{"bank", "postgres://h/a"}, {"shop", "u:p@tcp(h:3306)/b?x=1"}},
		"bank=postgres://h1,h2/a?x=1,stock=postgresql://h/b": {{"bank", "postgres://h1,h2/a?x=1"}, {"stock", "postgresql://h/b"}},
	} {
		got, err := parseDatabases(list)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(struct{ name, dsn string }{})); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", list, err, diff)
		}
	}
	for _, list := range []string{
		"embeded", "bank=postgres://h/a", "bank=postgres://h/a,bank=postgres://h/b", "=postgres://h/a,b=postgres://h/b",
		"a=postgres://h/a,b=postgres://h/b,c=postgres://h/c", "Bank=postgres://h/a,stock=postgres://h/b", "bank=host=x,stock=host=y",
	} {
		if got, err := parseDatabases(list); !errors.Is(err, txn.ErrInvalid) {
			t.Errorf("%s: %v, %v", list, got, err)
		}
	}
}

// A deadline is met only by a rollback with the cause timeout, at its time.
func TestDeadlineKept(t *testing.T) {
	timedOut := txn.Info{State: txn.RolledBack, Cause: txn.CauseTimeout}
	for name, c := range map[string]struct {
		end  txn.Info
		took time.Duration
		want bool
	}{
		"at its time":             {timedOut, openTimeout, true},
		"a moment later":          {timedOut, openTimeout + maxLateness - 1, true},
		"early":                   {timedOut, openTimeout - 1, false},
		"extended":                {timedOut, openTimeout + maxLateness, false},
		"committed":               {txn.Info{State: txn.Committed}, openTimeout, false},
		"rolled back by a client": {txn.Info{State: txn.RolledBack, Cause: txn.CauseClient}, openTimeout, false},
	} {
		if got := (openTransaction{}).onTime(c.end, c.took, maxLateness); got != c.want {
			t.Errorf("%s: kept %v", name, got)
		}
	}
}

func TestFreePorts(t *testing.T) {
	got, err := freePorts(50)
	if err != nil || len(got) != 50 {
		t.Fatalf("%v, %v", got, err)
	}
	slices.Sort(got)
	if n := len(slices.Compact(got)); n != 50 {
		t.Errorf("%d different ones of 50", n)
	}
}

func TestDemoOfTwoNodes(t *testing.T) {
	if s, err := Run(t.Context(), Config{Nodes: 2}); !errors.Is(err, txn.ErrInvalid) || s.OK {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestCoordinatorIsNotConfiguredByTheEnvironment(t *testing.T) {
	got := childEnvironment([]string{"PATH=/bin", "TXMGR_SERVER_DATA_DIR=/x", "TXMGR_ADDR=y", "BANK_DSN=z"})
	if diff := cmp.Diff([]string{"PATH=/bin", "BANK_DSN=z"}, got); diff != "" {
		t.Error(diff)
	}
}
