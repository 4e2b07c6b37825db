package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// options are the flags.
type options struct {
	rounds     int
	span       time.Duration
	workers    []int
	contenders []*contender
	delay      time.Duration
	dir        string
	json       string // "": none

	hung bool
	due  int
	lead time.Duration
}

// The longest values: beyond them a run would take hours.
const (
	maxSpan  = 10 * time.Minute
	maxDelay = time.Second
)

func readOptions(args []string, usage io.Writer) (o options, err error) {
	var workers, pattern string
	f := flag.NewFlagSet("overhead", flag.ContinueOnError)
	f.SetOutput(io.Discard) // an error is printed once, by main
	f.IntVar(&o.rounds, "rounds", 5, "how `often` everything is measured")
	f.DurationVar(&o.span, "time", time.Second, "how `long` each time, after a warm-up of a fifth of that")
	f.StringVar(&workers, "workers", "1,8,32", "how `many` transactions are under way at once, separated by commas")
	f.StringVar(&pattern, "contenders", "", "measure those whose key matches this `regexp`, and what they are compared with; \"\" is all")
	f.DurationVar(&o.delay, "disk-delay", 0, "make each synchronisation of the disk take `longer`, for all processes alike; see internal/slowdisk")
	f.StringVar(&o.dir, "dir", os.TempDir(), "`where` databases and coordinators keep their files meanwhile")
	f.StringVar(&o.json, "json", "", "write the result to this `file`, too, as one JSON document")
	f.BoolVar(&o.hung, "hung", false, "measure rollbacks beside a participant that hangs, instead")
	f.IntVar(&o.due, "due", 10_000, "with -hung: how `many` transactions expire at once")
	f.DurationVar(&o.lead, "lead", 20*time.Second, "with -hung: how `long` before their deadline they begin to be made")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			f.SetOutput(usage)
			fmt.Fprint(usage, "overhead measures what a global transaction costs, compared with its local transactions.\n\n")
			f.PrintDefaults()
			fmt.Fprintf(usage, "\nContenders: %s\n", strings.Join(keys(all), ", "))
			return o, err
		}
		return o, fmt.Errorf("%w; -h lists the flags", err)
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q; -h lists the flags", f.Arg(0))
	case o.rounds < 1:
		return o, fmt.Errorf("-rounds %d: want 1 or more", o.rounds)
	case o.span <= 0 || o.span > maxSpan:
		return o, fmt.Errorf("-time %v: want more than 0 and at most %v", o.span, maxSpan)
	case o.delay < 0 || o.delay > maxDelay:
		return o, fmt.Errorf("-disk-delay %v: want 0 to %v", o.delay, maxDelay)
	case o.delay > 0 && o.hung:
		return o, errors.New("-disk-delay is not for -hung")
	case o.due < 1:
		return o, fmt.Errorf("-due %d: want 1 or more", o.due)
	case o.lead < time.Second:
		return o, fmt.Errorf("-lead %v: want 1s or more", o.lead)
	}
	if o.workers, err = numbers(workers); err != nil {
		return o, err
	}
	o.contenders, err = choose(pattern)
	return o, err
}

func numbers(list string) (out []int, err error) {
	for w := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(w))
		if err != nil || n < 1 || n > maxWorkers {
			return nil, fmt.Errorf("-workers %s: want numbers from 1 to %d, separated by commas", list, maxWorkers)
		}
		out = append(out, n)
	}
	return out, nil
}

// choose returns the contenders whose key matches the pattern, and those that they are compared with.
func choose(pattern string) (chosen []*contender, err error) {
	r, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("-contenders: %w", err)
	}
	wanted := make(map[string]bool)
	for _, c := range all {
		if r.MatchString(c.Key) {
			wanted[c.Key] = true
			wanted[c.Beside] = true // "" if it is compared with none
		}
	}
	for _, c := range all {
		if wanted[c.Key] {
			chosen = append(chosen, c)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("-contenders %s: matches none of %s", pattern, strings.Join(keys(all), ", "))
	}
	return chosen, nil
}
