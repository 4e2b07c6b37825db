package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/internal/adaptivebench"
	"github.com/txmgr/txmgr/internal/adaptivestudy"
)

// studyFlags adds the flags of a study to bench adaptive.
func studyFlags(cmd *cobra.Command, asked *adaptiveFlags) {
	f := cmd.Flags()
	f.StringVar(&asked.study, "study", "", "parameter of the optimizers to vary: "+strings.Join(adaptivestudy.Names(), ", "))
	f.BoolVar(&asked.simulate, "simulate", false, "simulate a study at the source's pace instead of measuring it")
	_ = cmd.RegisterFlagCompletionFunc("study", cobra.FixedCompletions(adaptivestudy.Names(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}

// setStudyDefaults gives a study's flags the defaults that differ from those of a comparison.
func setStudyDefaults(cmd *cobra.Command, asked *adaptiveFlags) error {
	given := cmd.Flags().Changed
	switch {
	case asked.simulate && asked.study == "":
		return output.Usage("for example --study period --simulate", "--simulate is for a study")
	case asked.simulate && given("speed"):
		return output.Usage("omit one of them", "--simulate runs at the source's pace, and takes no --speed")
	case asked.study == "":
		return nil
	}
	for flag, usual := range map[string]struct {
		to    *string
		value string
	}{"apps": {&asked.apps, "prime1m"}, "load": {&asked.load, adaptivebench.VaryingLoad}, "pools": {&asked.pools, ""}} {
		if !given(flag) {
			*usual.to = usual.value
		}
	}
	return nil
}

// parseStudy validates the flags and returns the study and its configuration.
func parseStudy(asked adaptiveFlags) (adaptivestudy.Study, adaptivebench.Config, error) {
	names, err := selectNames("--study", asked.study, adaptivestudy.Names())
	if err != nil {
		return adaptivestudy.Study{}, adaptivebench.Config{}, err
	}
	if len(names) != 1 {
		return adaptivestudy.Study{}, adaptivebench.Config{}, output.Usage("name one of them", "--study: %s are %d studies", asked.study, len(names))
	}
	s, err := adaptivestudy.Find(names[0])
	if err != nil {
		return s, adaptivebench.Config{}, err
	}
	contenders, err := s.Contenders(asked.pools)
	if err != nil {
		return s, adaptivebench.Config{}, output.Usage("for example --pools throughput,mean,p99", "--pools: %v", err)
	}
	asked.pools = adaptivebench.DefaultContenders
	c, err := adaptiveConfig(asked)
	c.Contenders = contenders
	return s, c, err
}

func benchStudy(ctx context.Context, a *cli.App, asked adaptiveFlags) error {
	s, c, err := parseStudy(asked)
	if err != nil {
		return err
	}
	out, err := createReportDir(asked.out)
	if err != nil {
		return err
	}
	run, label, steps := adaptivestudy.Measure, "measuring", len(c.Tasks())
	if asked.simulate {
		run, label, steps = adaptivestudy.Simulate, "simulating", adaptivestudy.Runs(c)
		a.Print.Note("%d experiments of %s, and the best fixed sizes beside them, in simulation; Ctrl-C ends early", len(c.Tasks()), c.Time)
	} else {
		a.Print.Note("%d experiments, %s of the source each, %v times shortened: about %v; Ctrl-C ends early",
			steps, c.Time, c.Speed, c.Total().Round(time.Second))
	}
	bar := a.Print.Progress(label, steps, time.Now())
	c.Done = func() { bar.Step(time.Now()) }
	report, fault := run(ctx, s, c)
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
	err = a.Print.Print(output.Document{Value: report, IDs: contenderNames(c.Contenders), Tables: studyTables(report)})
	if err != nil || fault != nil {
		return errors.Join(adaptiveFailure(fault), err)
	}
	if asked.out != "" {
		a.Print.Note("the report: %s", out.indexPath())
	}
	return nil
}

// studyTables has one table for each application, load and optimizer.
func studyTables(r adaptivestudy.Report) []output.Table {
	var tables []output.Table
	for _, group := range r.Groups() {
		first := group[0]
		varying := first.Load == adaptivebench.VaryingLoad
		columns := []string{
			strings.ToUpper(fmt.Sprintf("%s, %s %d: %s", first.App, first.Load, first.Users, first.Optimizer)),
			"REQUESTS/S", "MEAN", "P99", "SIZE", "RESTS AT", "RESIZES",
		}
		if r.Simulated {
			columns = append(columns, "NEEDLESS", "OF BEST")
		}
		if varying {
			columns = append(columns, "IDLE AFTER", "LOAD AFTER")
		}
		t := output.Table{Columns: output.Columns(columns...)}
		for _, x := range group {
			row := []string{
				x.Contender, adaptivebench.Number(x.Rate), adaptivebench.Latency(x.Mean), adaptivebench.Latency(x.P99),
				adaptivebench.Number(x.Size), adaptivebench.RestText(x.Rest), formatRounded(x.Resizes),
			}
			if r.Simulated {
				row = append(row, formatRounded(x.Needless), formatRounded(100*x.OfBest)+" %")
			}
			if varying {
				row = append(row, formatRounded(x.IdleAfter)+"s", formatRounded(x.LoadAfter)+"s")
			}
			t.Add(row...)
		}
		tables = append(tables, t)
	}
	return tables
}

func formatRounded(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }
