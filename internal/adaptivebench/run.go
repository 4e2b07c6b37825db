package adaptivebench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/txmgr/txmgr/adaptive"
)

// closeTimeout is how long the end of an experiment may take.
const closeTimeout = time.Minute

// Run measures everything. Contenders take turns in a random order. When ctx ends, or
// an experiment fails, the report has the completed experiments, beside the error.
func Run(ctx context.Context, c Config) (_ Report, err error) {
	r := Report{Time: c.Time, Speed: c.Speed, Results: []Result{}}
	if err := c.Check(); err != nil {
		return r, err
	}
	tasks := c.Tasks()
	r.Period, r.Planned = c.Period(), len(tasks)
	watch := Begin()
	b := bench{config: c, closeTimeout: closeTimeout}
	defer func() {
		if b.db != nil {
			err = errors.Join(err, b.db.close())
		}
	}()
	order := shuffled(tasks)
	for _, k := range order {
		result, fault := b.measure(ctx, tasks[k])
		if fault != nil {
			err = fault
			break
		}
		r.Results = append(r.Results, result)
	}
	slices.SortStableFunc(r.Results, func(x, y Result) int { return slices.Index(tasks, x.Task) - slices.Index(tasks, y.Task) })
	r.Conditions = watch.End()
	if b.db != nil {
		r.PostgreSQL = b.db.version
	}
	return r, err
}

// shuffled is the order of the experiments: group by group, each in a random order.
func shuffled(tasks []Task) []int {
	var order []int
	for first := 0; first < len(tasks); {
		n := 1
		for first+n < len(tasks) && tasks[first+n].group() == tasks[first].group() {
			n++
		}
		for _, k := range rand.Perm(n) {
			order = append(order, first+k)
		}
		first += n
	}
	return order
}

// bench is the state that experiments share.
type bench struct {
	config       Config
	closeTimeout time.Duration // for the end of an experiment
	db           *database     // nil until one is needed
}

func (b *bench) measure(ctx context.Context, t Task) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	if b.config.Step != nil {
		b.config.Step(t)
	}
	result, err := b.experiment(ctx, t)
	if err != nil {
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		return Result{}, fmt.Errorf("measure %s under the %s load of %d users with the pool %s: %w", t.App, t.Load, t.Users, t.Contender, err)
	}
	if b.config.Done != nil {
		b.config.Done()
	}
	return result, nil
}

// experiment prepares an application and puts it under load.
func (b *bench) experiment(ctx context.Context, t Task) (Result, error) {
	app, _ := appOf(t.App)
	if app.Database && b.db == nil {
		db, err := openDatabase(ctx, slices.Max(b.config.Users))
		if err != nil {
			return Result{}, err
		}
		b.db = db
	}
	s, err := app.open(ctx, b.db)
	if err != nil {
		return Result{}, err
	}
	optimizer, start, err := b.config.contender(t).Make(b.config.Speed)
	if err != nil {
		return Result{}, err
	}
	runtime.GC() // garbage of earlier experiments must not burden this one
	return b.underLoad(ctx, t, s, &decisionRecorder{Optimizer: optimizer}, start)
}

// databasePID is the database server's process, 0 if there is none.
func (b *bench) databasePID() int {
	if b.db == nil {
		return 0
	}
	return b.db.server.PID()
}

// underLoad runs the users against a server, and sums up their results.
func (b *bench) underLoad(ctx context.Context, t Task, s service, w *decisionRecorder, start int) (_ Result, err error) {
	pool, err := adaptive.New(adaptive.Config{Optimizer: w, Start: start, Queue: MaxUsers})
	if err != nil {
		return Result{}, err
	}
	made := time.Now()
	contender := b.config.contender(t)
	length, phases, seen := b.config.Length(contender), PhasesOf(t.Load, t.Users), newRecorder()
	web, err := startServer(s, pool, seen.atServer)
	if err != nil {
		return Result{}, errors.Join(err, pool.Close(context.WithoutCancel(ctx)))
	}
	loaded, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	users := closedLoop{ctx: loaded, fail: fail, took: seen.atUser, newUser: func() (user, error) { return dial(loaded, web.address) }}
	scale := b.config.Time.Seconds() / length.Seconds()
	var tallies []*tally
	uses, used := newMeter(b.databasePID()), []Use{}
	began := time.Now()
	users.runPhases(phases, length, b.config.Period(), func(phase int, from, to time.Duration) {
		t := seen.take()
		t.from, t.to, t.phase = from, to, phase
		tallies = append(tallies, t)
		used = uses.read(used, to, scale)
	})
	users.end()
	closed, stop := context.WithTimeout(context.WithoutCancel(ctx), b.closeTimeout)
	defer stop()
	err = errors.Join(web.close(closed), pool.Close(closed))
	if loaded.Err() != nil {
		return Result{}, errors.Join(context.Cause(loaded), err)
	}
	if err == nil && s.check != nil {
		err = s.check(ctx, seen.total())
	}
	if err != nil {
		return Result{}, err
	}
	for i := range w.resizes {
		w.resizes[i].at -= began.Sub(made)
	}
	during := slices.DeleteFunc(w.resizes, func(c Resize) bool { return c.at > length })
	window := b.config.Period()
	if contender.Size == 0 {
		window = w.Period()
	}
	result := resultOf(t, phases, tallies, Sizes{start, during}, scale, window)
	result.Uses = used
	result.log, err = histogramLog(t, began, tallies)
	return result, err
}
