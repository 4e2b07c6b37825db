package adaptivestudy

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/txmgr/txmgr/internal/adaptivebench"
)

// Row is the result of an optimizer with one value of the parameter.
type Row struct {
	adaptivebench.Task
	Rate float64       `json:"rate"` // requests a second
	Mean time.Duration `json:"mean_ns"`
	P99  time.Duration `json:"p99_ns"`
	Size float64       `json:"size"` // on the average of the time
	adaptivebench.Rest
	Resizes float64 `json:"resizes"`
	// IdleAfter is how long after the end of the load the pool reached the size that it
	// then had for the longest time, LoadAfter the same after the load's return, in
	// seconds of the dissertation's time; negative where the load does not do that.
	IdleAfter float64 `json:"idle_after_seconds"`
	LoadAfter float64 `json:"load_after_seconds"`
	// OfBest is the throughput as a part of that of the best fixed sizes, Needless how
	// many of the resizes made nothing better; negative if that is not known, as in
	// a measurement.
	OfBest   float64 `json:"of_best"`
	Needless float64 `json:"needless"`
}

// Report is the result of a study.
type Report struct {
	adaptivebench.Report
	Study string `json:"study"`
	Rows  []Row  `json:"rows"`
	// Seeds are those of a simulation.
	Seeds []uint64 `json:"seeds,omitempty"`
}

// Groups are the rows that belong together: the values of one optimizer.
func (r Report) Groups() [][]Row {
	var groups [][]Row
	for _, row := range r.Rows {
		same := func(g []Row) bool {
			a, b := g[0].Task, row.Task
			a.Contender, b.Contender = "", ""
			return a == b
		}
		if i := slices.IndexFunc(groups, same); i >= 0 {
			groups[i] = append(groups[i], row)
		} else {
			groups = append(groups, []Row{row})
		}
	}
	return groups
}

// Files are those of the results, with the rows in the JSON file.
func (r Report) Files() ([]adaptivebench.File, error) {
	files, err := r.Report.Files()
	if err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the report: %w", err)
	}
	for i := range files {
		if files[i].Name == adaptivebench.DataFile {
			files[i].Text = string(data) + "\n"
		}
	}
	return files, nil
}

// rowOf is the row of a single result.
func rowOf(x adaptivebench.Result) Row {
	row := Row{
		Task: x.Task, Rate: x.Rate, Mean: x.Mean, P99: x.P99, Size: x.Size, Rest: x.Rest,
		Resizes: float64(len(x.Resizes)), IdleAfter: -1, LoadAfter: -1, OfBest: -1, Needless: -1,
	}
	for i, p := range x.Parts {
		switch {
		case p.Users == 0:
			row.IdleAfter = p.After
		case i > 0 && x.Parts[i-1].Users == 0:
			row.LoadAfter = p.After
		}
	}
	return row
}

// meanOf is the mean of rows of the same task. The resting size is that which most of
// them had for the longest time, the smallest of several.
func meanOf(rows []Row) Row {
	mean, n := Row{Task: rows[0].Task}, float64(len(rows))
	var means, tails time.Duration
	rests := map[int]int{}
	for _, r := range rows {
		mean.Rate += r.Rate / n
		mean.Size += r.Size / n
		mean.Resizes += r.Resizes / n
		mean.IdleAfter += r.IdleAfter / n
		mean.LoadAfter += r.LoadAfter / n
		mean.OfBest += r.OfBest / n
		mean.Needless += r.Needless / n
		means, tails = means+r.Mean, tails+r.P99
		rests[r.At]++
	}
	mean.Mean, mean.P99 = means/time.Duration(len(rows)), tails/time.Duration(len(rows))
	for size, times := range rests {
		if most := rests[mean.At]; times > most || times == most && size < mean.At {
			mean.At = size
		}
	}
	for _, r := range rows {
		if r.At == mean.At {
			mean.For += r.For / float64(rests[mean.At])
			mean.After += r.After / float64(rests[mean.At])
		}
	}
	return mean
}
