package adaptivestudy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/txmgr/txmgr/internal/adaptivebench"
)

// Study is a parameter and the values that are compared.
type Study struct {
	// Name identifies it.
	Name string
	// About describes what is varied.
	About string

	values []adaptivebench.Setting
	knee   bool // it has the parameter, too
}

// Studies are those of the dissertation's section 5.2.
func Studies() []Study {
	return []Study{
		{Name: "period", About: "from one decision to the next", knee: true, values: []adaptivebench.Setting{
			{Period: 5 * time.Second}, {Period: 10 * time.Second}, {Period: time.Minute},
		}},
		{Name: "lock", About: "how long a direction is left alone after a step that was of no use", knee: true, values: []adaptivebench.Setting{
			{Lock: 30 * time.Second}, {Lock: 40 * time.Second}, {Lock: time.Minute}, {Lock: 2 * time.Minute},
		}},
		{Name: "step", About: "by how many workers the size changes at once", values: []adaptivebench.Setting{
			{Step: 1}, {Step: 5}, {Step: 10}, {Step: 20}, {Step: 50},
		}},
		{Name: "change", About: "the least change of throughput or latency that counts", values: []adaptivebench.Setting{
			{Change: 0.01}, {Change: 0.05}, {Change: 0.10}, {Change: 0.20}, {Change: 0.40},
		}},
	}
}

// Names are those of all studies.
func Names() []string {
	var names []string
	for _, s := range Studies() {
		names = append(names, s.Name)
	}
	return names
}

// Find returns a study by its name.
func Find(name string) (Study, error) {
	all := Studies()
	i := slices.IndexFunc(all, func(s Study) bool { return s.Name == name })
	if i < 0 {
		return Study{}, fmt.Errorf("there is no study %q: want one of %s", name, strings.Join(Names(), ", "))
	}
	return all[i], nil
}

// Optimizers are those that have the parameter.
func (s Study) Optimizers() []string {
	return slices.DeleteFunc(adaptivebench.Optimizers(), func(name string) bool { return name == "knee" && !s.knee })
}

// Contenders are the optimizers with each of the values; their names are in a list with
// commas between them, an empty one for all.
func (s Study) Contenders(list string) ([]adaptivebench.Contender, error) {
	if list == "" {
		list = strings.Join(s.Optimizers(), ",")
	}
	named, err := adaptivebench.ParseContenders(list)
	if err != nil {
		return nil, err
	}
	var all []adaptivebench.Contender
	for _, c := range named {
		if !slices.Contains(s.Optimizers(), c.Name) {
			return nil, fmt.Errorf("%s has no %s to vary: want some of %s", c.Name, s.Name, strings.Join(s.Optimizers(), ", "))
		}
		for _, v := range s.values {
			all = append(all, adaptivebench.Contender{Name: s.Name + " " + valueText(v), Optimizer: c.Name, Setting: v})
		}
	}
	return all, nil
}

// valueText formats the value that a setting sets.
func valueText(v adaptivebench.Setting) string {
	switch {
	case v.Period > 0:
		return strconv.Itoa(int(v.Period/time.Second)) + "s"
	case v.Lock > 0:
		return strconv.Itoa(int(v.Lock/time.Second)) + "s"
	case v.Step > 0:
		return strconv.Itoa(v.Step)
	}
	return strconv.FormatFloat(100*v.Change, 'f', -1, 64) + "%"
}
