package tour

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
)

// Config says on what the tour runs and where it tells its story.
type Config struct {
	// Program is this program, which is also the coordinator.
	Program string
	// Nodes is how many processes the coordinator is: one, or three that stand in for
	// one another. Defaults to 1.
	Nodes int
	// Databases is auto, embedded, scratch, or NAME=DSN,NAME=DSN. Defaults to auto.
	Databases string
	// Environ is the environment that the coordinator gets.
	Environ []string
	// Story receives the story.
	Story Story
}

// Summary is how the tour went.
type Summary struct {
	OK        bool         `json:"ok"`
	Nodes     int          `json:"nodes"`
	Databases []Database   `json:"databases"`
	Scenes    []Scene      `json:"scenes"`
	Kills     int          `json:"kills"`
	Took      txn.Duration `json:"took"`
}

// Database is one of the databases of the tour.
type Database struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	What string `json:"what"`
}

// Scene is one scene and what was checked in it.
type Scene struct {
	Title  string       `json:"title"`
	OK     bool         `json:"ok"`
	Took   txn.Duration `json:"took"`
	Checks []Check      `json:"checks"`
}

// Check is something that the tour looked up.
type Check struct {
	What string `json:"what"`
	OK   bool   `json:"ok"`
	// Found says what was there instead.
	Found string `json:"found"`
}

// tour is a tour under way.
type tour struct {
	story   Story
	summary Summary
	fleet   *fleet
	m       *client.Client
	cluster string
	dbs     [2]database
	book    book
	service service
	used    map[string]int64 // what the service must have granted for good
}

// service is the web service that has to agree to every transfer.
type service interface {
	registration() txn.Participant
	what() string
	enlist(ctx context.Context, tx *txn.Tx, account string, amount int64) error
	used(ctx context.Context) (used map[string]int64, held int64, err error)
}

// scene is the body of a scene. An error means that it could not be played; what
// did not hold is recorded by check.
type scene struct {
	title string
	play  func(*tour, context.Context) error
}

// Run gives the tour. The error says why it could not go on; without one,
// [Summary.OK] says whether all that was promised held.
func Run(ctx context.Context, c Config) (s Summary, err error) {
	began := time.Now()
	c.Nodes = cmp.Or(c.Nodes, 1)
	if c.Nodes != 1 && c.Nodes != 3 {
		return s, fmt.Errorf("%w: the coordinator of the tour has 1 node or 3, not %d", txn.ErrInvalid, c.Nodes)
	}
	t := &tour{story: c.Story, summary: Summary{Nodes: c.Nodes}}
	dir, err := os.MkdirTemp("", "txmgr-demo-")
	if err != nil {
		return s, fmt.Errorf("make a directory for the tour: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	stage, err := openStage(ctx, c, dir)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, stage.close()) }()
	l, err := startLimits(ctx, dir)
	if err != nil {
		return s, fmt.Errorf("start a web service: %w", err)
	}
	defer func() { err = errors.Join(err, l.close()) }()
	t.service = l
	if t.fleet, err = newFleet(c.Nodes, c.Program, dir, childEnvironment(c.Environ)); err != nil {
		return s, fmt.Errorf("make a coordinator: %w", err)
	}
	defer func() { err = errors.Join(err, t.fleet.close()) }()
	t.dbs = stage.dbs
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.open(ctx); err != nil {
		return t.summary, err
	}
	t.banner(stage)
	err = t.playAll(ctx)
	t.summary.Took = txn.Duration(time.Since(began).Round(time.Millisecond))
	t.summary.OK = err == nil && t.held()
	return t.summary, err
}

// scenes are those for one process, or for several.
func (t *tour) scenes() []scene {
	all := []scene{
		{"A transfer commits", (*tour).transferCommits},
		{"One of them says no", (*tour).voteNo},
		{"An application dies with locks in its hands", (*tour).abandoned},
		{"The coordinator dies right after its decision", (*tour).killedAfterDecision},
		{"A hundred transfers while the coordinator keeps dying", (*tour).storm},
		{"Somebody ends a branch by hand", (*tour).byHand},
	}
	if t.fleet.several() {
		all[3] = scene{"The leader dies in the middle of a commit", (*tour).leaderDies}
		all[4].title = "A hundred transfers while one leader after the other dies"
	}
	return all
}

func (t *tour) playAll(ctx context.Context) error {
	for i, s := range t.scenes() {
		began := time.Now()
		t.story.scene(i+1, s.title)
		t.summary.Scenes = append(t.summary.Scenes, Scene{Title: s.title, OK: true, Checks: []Check{}})
		if err := s.play(t, ctx); err != nil {
			t.now().OK = false
			return fmt.Errorf("scene %d, %s: %w", i+1, s.title, err)
		}
		// A service hears of a decision after the application.
		if err := errors.Join(t.settle(ctx), t.audit(ctx)); err != nil {
			t.now().OK = false
			return fmt.Errorf("scene %d, %s: %w", i+1, s.title, err)
		}
		t.now().Took = txn.Duration(time.Since(began).Round(time.Millisecond))
		if !t.now().OK {
			return nil // what comes after would only be confusing
		}
	}
	return nil
}

// now is the scene that is being played.
func (t *tour) now() *Scene { return &t.summary.Scenes[len(t.summary.Scenes)-1] }

// check records whether something holds. found says what is there otherwise.
func (t *tour) check(ok bool, what, found string) {
	s := t.now()
	if ok {
		found = ""
	}
	s.Checks = append(s.Checks, Check{What: what, OK: ok, Found: found})
	s.OK = s.OK && ok
	t.story.check(ok, what, found)
}

func (t *tour) held() bool {
	for _, s := range t.summary.Scenes {
		if !s.OK {
			return false
		}
	}
	return true
}

// audit compares the databases with what they must hold.
func (t *tour) audit(ctx context.Context) error {
	var wrong, left []string
	for i, db := range t.dbs {
		got, err := db.balances(ctx)
		if err != nil {
			return fmt.Errorf("read the balances of %s: %w", db.name(), err)
		}
		if w := t.book.differences(i, got); w != "" {
			wrong = append(wrong, db.name()+": "+w)
		}
		prepared, err := db.prepared(ctx, txn.ClusterPrefix(t.cluster))
		if err != nil {
			return fmt.Errorf("ask %s what is prepared: %w", db.name(), err)
		}
		left = append(left, prepared...)
	}
	used, held, err := t.service.used(ctx)
	if err != nil {
		return fmt.Errorf("ask the service what is used: %w", err)
	}
	if !maps.Equal(used, t.used) {
		wrong = append(wrong, fmt.Sprintf("%s: %v are used, must be %v", serviceName, used, t.used))
	}
	if held != 0 {
		left = append(left, fmt.Sprintf("%d at %s", held, serviceName))
	}
	t.check(len(wrong) == 0, fmt.Sprintf("all %d balances are what the outcomes say; the sum is %d", 2*accounts, t.book.sum()), strings.Join(wrong, "; "))
	t.check(len(left) == 0, "nothing is left prepared", strings.Join(left, ", "))
	return nil
}
