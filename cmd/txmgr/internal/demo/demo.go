package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Config configures a demo.
type Config struct {
	// Program is the path of txmgr, which is also the coordinator.
	Program string
	// Nodes is the number of processes of the coordinator: 1 or 3. Defaults to 1.
	Nodes int
	// Databases is auto, embedded, scratch, or NAME=DSN,NAME=DSN. Defaults to auto.
	Databases string
	// Environ is the environment of the coordinator.
	Environ []string
	// Reporter prints the steps.
	Reporter Reporter
}

// Summary is the result of a demo.
type Summary struct {
	OK        bool         `json:"ok"`
	Nodes     int          `json:"nodes"`
	Databases []Database   `json:"databases"`
	Scenarios []Scenario   `json:"scenarios"`
	Kills     int          `json:"kills"`
	Took      txn.Duration `json:"took"`
}

// Database is one of the databases of a demo.
type Database struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	What string `json:"what"`
}

// Scenario is one scenario and its checks.
type Scenario struct {
	Title  string       `json:"title"`
	OK     bool         `json:"ok"`
	Took   txn.Duration `json:"took"`
	Checks []Check      `json:"checks"`
}

// Check is one property that the demo checked.
type Check struct {
	What string `json:"what"`
	OK   bool   `json:"ok"`
	// Found describes what was found instead.
	Found string `json:"found"`
}

// demo is a demo in progress.
type demo struct {
	reporter Reporter
	summary  Summary
	nodes    *coordinators
	m        *client.Client
	cluster  string
	dbs      [2]database
	expected expectedBalances
	service  service
	used     map[string]int64 // what the service must have granted and used
}

// service is the web service that has to agree to every transfer.
type service interface {
	registration() admin.Participant
	describe() string
	enlist(ctx context.Context, tx *txn.Tx, account string, amount int64) error
	used(ctx context.Context) (used map[string]int64, held int64, err error)
}

// scenario is the body of a scenario. An error means that it could not be run; check records what
// did not hold.
type scenario struct {
	title string
	run   func(*demo, context.Context) error
}

// Run runs the demo. The error says why it could not continue; without one, [Summary.OK] reports
// whether every check passed.
func Run(ctx context.Context, c Config) (s Summary, err error) {
	began := time.Now()
	c.Nodes = cmp.Or(c.Nodes, 1)
	if c.Nodes != 1 && c.Nodes != 3 {
		return s, fmt.Errorf("%w: the coordinator of the demo has 1 node or 3, not %d", txn.ErrInvalid, c.Nodes)
	}
	t := &demo{reporter: c.Reporter, summary: Summary{Nodes: c.Nodes}}
	dir, err := os.MkdirTemp("", "txmgr-demo-")
	if err != nil {
		return s, fmt.Errorf("create a directory for the demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	stage, err := openEnvironment(ctx, c, dir)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, stage.close()) }()
	l, err := startLimitService(ctx, dir)
	if err != nil {
		return s, fmt.Errorf("start a web service: %w", err)
	}
	defer func() { err = errors.Join(err, l.close()) }()
	t.service = l
	if t.nodes, err = newCoordinators(c.Nodes, c.Program, dir, childEnvironment(c.Environ)); err != nil {
		return s, fmt.Errorf("create a coordinator: %w", err)
	}
	defer func() { err = errors.Join(err, t.nodes.close()) }()
	t.dbs = stage.dbs
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.open(ctx); err != nil {
		return t.summary, err
	}
	t.banner(stage)
	err = t.runAll(ctx)
	t.summary.Took = txn.Duration(time.Since(began).Round(time.Millisecond))
	t.summary.OK = err == nil && t.passed()
	return t.summary, err
}

// scenarios are the scenarios for one node, or for several.
func (t *demo) scenarios() []scenario {
	all := []scenario{
		{"A transfer commits", (*demo).transferCommits},
		{"A participant votes no", (*demo).voteNo},
		{"An application dies while its branches are prepared", (*demo).abandoned},
		{"The coordinator is killed right after its decision", (*demo).killedAfterDecision},
		{"100 transfers while the coordinator is killed repeatedly", (*demo).chaos},
		{"An operator ends a branch manually", (*demo).manualCompletion},
	}
	if t.nodes.clustered() {
		all[3] = scenario{"The leader is killed during a commit", (*demo).leaderCrashes}
		all[4].title = "100 transfers while one leader after the other is killed"
	}
	return all
}

func (t *demo) runAll(ctx context.Context) error {
	for i, s := range t.scenarios() {
		began := time.Now()
		t.reporter.heading(i+1, s.title)
		t.summary.Scenarios = append(t.summary.Scenarios, Scenario{Title: s.title, OK: true, Checks: []Check{}})
		if err := s.run(t, ctx); err != nil {
			t.current().OK = false
			return fmt.Errorf("scenario %d, %s: %w", i+1, s.title, err)
		}
		// A service is called with the decision after the application has its answer.
		if err := errors.Join(t.awaitIdle(ctx), t.checkDatabases(ctx)); err != nil {
			t.current().OK = false
			return fmt.Errorf("scenario %d, %s: %w", i+1, s.title, err)
		}
		t.current().Took = txn.Duration(time.Since(began).Round(time.Millisecond))
		if !t.current().OK {
			return nil // later results would only confuse
		}
	}
	return nil
}

// current is the scenario in progress.
func (t *demo) current() *Scenario { return &t.summary.Scenarios[len(t.summary.Scenarios)-1] }

// check records whether a property holds. found describes what is there otherwise.
func (t *demo) check(ok bool, what, found string) {
	s := t.current()
	if ok {
		found = ""
	}
	s.Checks = append(s.Checks, Check{What: what, OK: ok, Found: found})
	s.OK = s.OK && ok
	t.reporter.check(ok, what, found)
}

func (t *demo) passed() bool {
	for _, s := range t.summary.Scenarios {
		if !s.OK {
			return false
		}
	}
	return true
}

// checkDatabases compares the databases with the expected balances.
func (t *demo) checkDatabases(ctx context.Context) error {
	var wrong, left []string
	for i, db := range t.dbs {
		got, err := db.balances(ctx)
		if err != nil {
			return fmt.Errorf("read the balances of %s: %w", db.name(), err)
		}
		if w := t.expected.differences(i, got); w != "" {
			wrong = append(wrong, db.name()+": "+w)
		}
		prepared, err := db.prepared(ctx, txn.ClusterPrefix(t.cluster))
		if err != nil {
			return fmt.Errorf("read the prepared branches of %s: %w", db.name(), err)
		}
		left = append(left, prepared...)
	}
	used, held, err := t.service.used(ctx)
	if err != nil {
		return fmt.Errorf("read the used amounts of the service: %w", err)
	}
	if !maps.Equal(used, t.used) {
		wrong = append(wrong, fmt.Sprintf("%s: used %v, must be %v", serviceName, used, t.used))
	}
	if held != 0 {
		left = append(left, fmt.Sprintf("%d at %s", held, serviceName))
	}
	t.check(len(wrong) == 0, fmt.Sprintf("all %d balances match the outcomes of the transactions; the sum is %d", 2*accounts, t.expected.sum()), strings.Join(wrong, "; "))
	t.check(len(left) == 0, "no branch is left prepared", strings.Join(left, ", "))
	return nil
}
