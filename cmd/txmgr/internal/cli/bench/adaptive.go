package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/internal/adaptivebench"
	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/txn"
)

// adaptiveFlags are the flags of bench adaptive.
type adaptiveFlags struct {
	apps, users, pools, load, out, study string
	time                                 time.Duration
	speed                                float64
	simulate                             bool
}

func adaptiveCommand(a *cli.App) *cobra.Command {
	var asked adaptiveFlags
	cmd := &cobra.Command{
		Use:   "adaptive",
		Short: "Compare pools of a fixed size with adaptive pools",
		Long: `Repeat the experiments of the publication of the adaptive pool's optimizers: an HTTP
server runs each request on a pool of workers, and users send one request after the other.
Pools of a fixed size are compared with pools that an optimizer sizes, which begin with
one worker.

Applications:
  prime1m, prime10m  is one of 21 numbers from a million, or ten million, prime?
  dbread, dbwrite    one of 50,000 rows, or the time into a table, of a private PostgreSQL

Pools are numbers of workers, and optimizers:
  throughput  one of the source's: larger as long as that yields 10 % more
  mean, p99   its two others: smaller or larger where that lowers the latency by 5 %
  knee        the smallest size with the throughput of the best
  throughput-reconciled, mean-reconciled, p99-reconciled
              the source's as they are intended, not as they were published

Load: fixed is a constant number of users. varying is the five phases of the source: half
of the largest number of --users, 1, all of them, none, and half again.

An experiment of the source takes 25 minutes (--time), and is shortened (--speed); a pool
of a fixed size, which has nothing to learn, is measured for a fifth of that. The more the
experiment is shortened, the fewer requests a window of the source's optimizers contains,
and the more chance determines their decisions. All experiments take less than 25 minutes
by default. Ctrl-C ends them early and prints the results so far.

  REQUESTS/S  of the whole time, including the time of learning
  MEAN, P99   latencies at the server, including the time in the queue
  SIZE        maximum number of workers, averaged over the time; and at the end
  RESIZES     number of changes of the size

A study (--study) varies one parameter of the optimizers and keeps the rest: the period
from one decision to the next, the lock after a step that was of no use, the step, or the
least change that counts. By default it runs prime1m under the varying load. --simulate
runs it at the source's pace, in seconds, on four simulated processors and a simulated
database. For knee, the period is twenty times its window, and the lock the time for which
it keeps a size at first; it has no step and no least change.

  RESTS AT    the size that a pool had for the longest time, and the part of the time
  NEEDLESS    changes of the size that improved nothing
  OF BEST     throughput, as a part of that of the best fixed sizes
  IDLE AFTER  time from the end of the load until the pool had the size that it then had
              for the longest time; LOAD AFTER, the same after the load's return`,
		Example: `  txmgr bench adaptive --out report
  txmgr bench adaptive --apps prime10m --load fixed --users 1,10,100 --speed 100
  txmgr bench adaptive --apps dbwrite --pools 10,100,throughput,knee --speed 10 -o json
  txmgr bench adaptive --study period --simulate --out report`,
		Args:              cli.NoArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&asked.apps, "apps", "", "applications, separated by commas (default all)")
	f.StringVar(&asked.users, "users", "100", "numbers of users, separated by commas")
	f.StringVar(&asked.pools, "pools", adaptivebench.DefaultContenders, "sizes and optimizers, separated by commas")
	f.StringVar(&asked.load, "load", "fixed,varying", "load: fixed, varying, or both")
	f.DurationVar(&asked.time, "time", adaptivebench.DefaultTime, "duration of an experiment of the source")
	f.Float64Var(&asked.speed, "speed", adaptivebench.DefaultSpeed, "factor by which the experiment is shortened")
	f.StringVar(&asked.out, "out", "", "directory for a report with pictures; it is created if it is missing")
	studyFlags(cmd, &asked)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := setStudyDefaults(cmd, &asked); err != nil {
			return err
		}
		if asked.study != "" {
			return benchStudy(cmd.Context(), a, asked)
		}
		return benchAdaptive(cmd.Context(), a, asked)
	}
	return cmd
}

func benchAdaptive(ctx context.Context, a *cli.App, asked adaptiveFlags) error {
	c, err := adaptiveConfig(asked)
	if err != nil {
		return err
	}
	out, err := createReportDir(asked.out)
	if err != nil {
		return err
	}
	tasks := c.Tasks()
	a.Print.Note("%d experiments, %s of the source each, %v times shortened: about %v; Ctrl-C ends early",
		len(tasks), c.Time, c.Speed, c.Total().Round(time.Second))
	bar := a.Print.Progress("measuring", len(tasks), time.Now())
	c.Done = func() { bar.Step(time.Now()) }
	report, fault := adaptivebench.Run(ctx, c)
	bar.Hide()
	if len(report.Results) == 0 && fault != nil {
		return adaptiveFailure(fault)
	}
	if fault != nil {
		a.Print.Note("ended early: %d of %d experiments", len(report.Results), report.Planned)
	}
	if err := out.write(report); err != nil {
		return errors.Join(err, fault)
	}
	err = a.Print.Print(output.Document{Value: report, IDs: contenderNames(c.Contenders), Tables: adaptiveTables(report)})
	if err != nil || fault != nil {
		return errors.Join(adaptiveFailure(fault), err)
	}
	if asked.out != "" {
		a.Print.Note("the report: %s", out.indexPath())
	}
	return nil
}

// adaptiveFailure adds the next step to an error whose cause is that PostgreSQL is not installed.
func adaptiveFailure(err error) error {
	if errors.Is(err, testdb.ErrMissing) {
		return &output.Failure{
			Code: txn.CodeError, What: "start a private PostgreSQL", Cause: err.Error(), Err: err,
			Hint: "install it, or exclude it: txmgr bench adaptive --apps prime1m,prime10m",
		}
	}
	return err
}

// adaptiveConfig validates the flags and returns the configuration.
func adaptiveConfig(asked adaptiveFlags) (c adaptivebench.Config, err error) {
	c.Time, c.Speed = asked.time, asked.speed
	var apps []string
	for _, known := range adaptivebench.Apps() {
		apps = append(apps, known.Name)
	}
	if c.Apps = apps; asked.apps != "" {
		if c.Apps, err = selectNames("--apps", asked.apps, apps); err != nil {
			return c, err
		}
	}
	if c.Loads, err = selectNames("--load", asked.load, adaptivebench.Loads()); err != nil {
		return c, err
	}
	if c.Users, err = adaptivebench.ParseUsers(asked.users); err != nil {
		return c, output.Usage("for example --users 1,10,100", "--users: %v", err)
	}
	if c.Contenders, err = adaptivebench.ParseContenders(asked.pools); err != nil {
		return c, output.Usage("for example --pools 10,100,knee", "--pools: %v", err)
	}
	if math.IsNaN(c.Speed) || c.Speed < 1 || c.Speed > adaptivebench.MaxSpeed {
		return c, output.Usage(fmt.Sprintf("--speed 1 to %d", adaptivebench.MaxSpeed), "--speed is %v", c.Speed)
	}
	if c.Time < adaptivebench.MinTime || c.Time > adaptivebench.MaxTime {
		return c, output.Usage(fmt.Sprintf("--time %v to %v", adaptivebench.MinTime, adaptivebench.MaxTime), "--time is %v", c.Time)
	}
	return c, c.Check()
}

func contenderNames(all []adaptivebench.Contender) []string {
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	return names
}

// usageCells formats the resources that an experiment used: processors, and megabytes a second.
func usageCells(x adaptivebench.Result) []string {
	use, ok := x.MeanUse()
	if !ok {
		return []string{"-", "-"}
	}
	return []string{adaptivebench.Number(use.CPU), adaptivebench.Number(use.Written/1e6) + " MB"}
}

// adaptiveTables has one table for each application and load.
func adaptiveTables(r adaptivebench.Report) []output.Table {
	var tables []output.Table
	for _, group := range r.Groups() {
		first := group[0]
		t := output.Table{Columns: output.Columns(
			strings.ToUpper(first.App)+", "+strings.ToUpper(first.Load)+" "+strconv.Itoa(first.Users),
			"REQUESTS/S", "MEAN", "P99", "SIZE", "LAST", "RESIZES")}
		t.Columns = append(t.Columns, output.Column{Name: "P99 AT USERS", Wide: true}, output.Column{Name: "IN A WINDOW", Wide: true},
			output.Column{Name: "RESTS AT", Wide: true}, output.Column{Name: "PROCESSORS", Wide: true}, output.Column{Name: "WRITTEN/S", Wide: true})
		for _, p := range first.Parts {
			name := strings.ToUpper(p.Name)
			if first.Load == adaptivebench.VaryingLoad {
				name = "USERS: " + strconv.Itoa(p.Users)
			}
			t.Columns = append(t.Columns, output.Column{Name: name, Wide: first.Load == adaptivebench.FixedLoad})
		}
		for _, x := range group {
			row := []string{
				x.Contender, adaptivebench.Number(x.Rate), adaptivebench.Latency(x.Mean), adaptivebench.Latency(x.P99),
				adaptivebench.Number(x.Size), strconv.Itoa(x.Last), strconv.Itoa(len(x.Resizes)),
				adaptivebench.Latency(x.UserP99), adaptivebench.Number(x.PerWindow), adaptivebench.RestText(x.Rest),
			}
			row = append(row, usageCells(x)...)
			for _, p := range x.Parts {
				row = append(row, adaptivebench.Number(p.Rate)+"/s at "+adaptivebench.Number(p.Size))
			}
			t.Add(row...)
		}
		tables = append(tables, t)
	}
	return tables
}
