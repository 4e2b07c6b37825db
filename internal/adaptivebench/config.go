package adaptivebench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of a configuration.
const (
	// MaxUsers is the largest number of users: each has a connection to the server and
	// one to the database.
	MaxUsers = 1000
	// MinTime and MaxTime bound how long an experiment of the dissertation lasts.
	MinTime, MaxTime = time.Minute, 24 * time.Hour
	// MaxSpeed is the largest factor: a window of ten seconds becomes one of ten
	// milliseconds.
	MaxSpeed = 1000
	// DefaultTime is the dissertation's, DefaultSpeed a factor with which everything that is
	// measured by default takes less than 25 minutes.
	DefaultTime  = 25 * time.Minute
	DefaultSpeed = 45
)

const (
	sourcePeriod = 10 * time.Second // of the dissertation's optimizers
	fixedShare   = 5                // a fixed pool is measured for a fifth of the time
)

// Config configures a run.
type Config struct {
	Apps       []string
	Contenders []Contender
	Users      []int // a varying load takes the largest alone
	Loads      []string

	// Time is how long an experiment of the dissertation lasts, Speed the factor by which it is
	// shortened.
	Time  time.Duration
	Speed float64

	// Step is called when an experiment begins, and Done when it ends. Both may be nil.
	Step func(Task)
	Done func()
}

// Task is one experiment.
type Task struct {
	App       string `json:"app"`
	Load      string `json:"load"`
	Users     int    `json:"users"`
	Contender string `json:"pool"`
	// Optimizer is the contender's, where it has several settings; else it is empty.
	Optimizer string `json:"optimizer,omitempty"`
}

// group is the task without its contender: tasks of one group are compared in one picture.
func (t Task) group() Task {
	t.Contender = ""
	return t
}

// ParseUsers reads numbers of users with commas between them.
func ParseUsers(list string) ([]int, error) {
	var all []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("%q is no number of users: want for example 1,10,100", text)
		}
		if n < 1 || n > MaxUsers {
			return nil, fmt.Errorf("%d users: want 1 to %d", n, MaxUsers)
		}
		all = append(all, n)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// Check returns what is wrong with a configuration.
func (c Config) Check() error {
	for _, name := range c.Apps {
		if _, ok := appOf(name); !ok {
			return fmt.Errorf("there is no application %q", name)
		}
	}
	for _, load := range c.Loads {
		if !slices.Contains(Loads(), load) {
			return fmt.Errorf("there is no load %q: want %s", load, strings.Join(Loads(), " or "))
		}
	}
	for _, n := range c.Users {
		if n < 1 || n > MaxUsers {
			return fmt.Errorf("%d users: want 1 to %d", n, MaxUsers)
		}
	}
	switch {
	case len(c.Apps) == 0 || len(c.Contenders) == 0 || len(c.Users) == 0 || len(c.Loads) == 0:
		return fmt.Errorf("nothing to measure: want applications, pools, users and loads")
	case c.Time < MinTime || c.Time > MaxTime:
		return fmt.Errorf("an experiment of %v: want %v to %v", c.Time, MinTime, MaxTime)
	case !(c.Speed >= 1 && c.Speed <= MaxSpeed):
		return fmt.Errorf("a factor of %v: want 1 to %d", c.Speed, MaxSpeed)
	}
	return nil
}

// Tasks are the experiments; those that are compared follow each other.
func (c Config) Tasks() []Task {
	var tasks []Task
	for _, app := range c.Apps {
		for _, load := range c.Loads {
			users := c.Users
			if load == VaryingLoad {
				users = []int{slices.Max(users)}
			}
			for _, n := range users {
				for _, contender := range c.Contenders {
					tasks = append(tasks, Task{app, load, n, contender.Name, contender.Optimizer})
				}
			}
		}
	}
	return tasks
}

// Period is the length of a window of the dissertation's optimizers, and of a point in a
// picture.
func (c Config) Period() time.Duration { return time.Duration(float64(sourcePeriod) / c.Speed) }

// Length is how long a contender is measured each time.
func (c Config) Length(contender Contender) time.Duration {
	d := time.Duration(float64(c.Time) / c.Speed)
	if contender.Size > 0 {
		d /= fixedShare
	}
	return d
}

// Total is approximately how long everything takes.
func (c Config) Total() time.Duration {
	var total time.Duration
	for _, t := range c.Tasks() {
		total += c.Length(c.contender(t)) + taskOverhead
	}
	return total
}

// taskOverhead is approximately the time from one experiment to the next.
const taskOverhead = 150 * time.Millisecond

func (c Config) contender(t Task) Contender {
	i := slices.IndexFunc(c.Contenders, func(x Contender) bool { return x.Name == t.Contender && x.Optimizer == t.Optimizer })
	if i < 0 {
		return Contender{Name: t.Contender, Optimizer: t.Optimizer}
	}
	return c.Contenders[i]
}
