package main

import (
	"errors"
	"flag"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDefaults(t *testing.T) {
	o, err := readOptions(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.rounds != 5 || o.span != time.Second || !slices.Equal(o.workers, []int{1, 8, 32}) || len(o.contenders) != len(all) || o.delay != 0 || o.json != "" || o.hung {
		t.Errorf("defaults are %+v", o)
	}
}

func TestBadFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-rounds 0", "-rounds 0: want 1 or more"},
		{"-rounds x", "-h lists the flags"},
		{"-time 0s", "-time 0s: want more than 0 and at most 10m0s"},
		{"-time 1h", "-time 1h0m0s: want more than 0"},
		{"-workers 1,65", "-workers 1,65: want numbers from 1 to 64"},
		{"-workers ,", "-workers ,: want numbers"},
		{"-contenders (", "-contenders: error parsing regexp"},
		{"-contenders nothing", "-contenders nothing: matches none of manual, manual-at-once,"},
		{"-disk-delay -1ms", "-disk-delay -1ms: want 0 to 1s"},
		{"-disk-delay 2s", "-disk-delay 2s: want 0 to 1s"},
		{"-hung -disk-delay 2ms", "-disk-delay is not for -hung"},
		{"-hung -due 0", "-due 0: want 1 or more"},
		{"-hung -lead 1ms", "-lead 1ms: want 1s or more"},
		{"-only pg", "not defined: -only"},
		{"pg", `unexpected argument "pg"`},
	} {
		if _, err := readOptions(strings.Fields(c.args), io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.args, err, c.want)
		}
	}
}

func TestHelpListsContenders(t *testing.T) {
	var b strings.Builder
	if _, err := readOptions([]string{"-h"}, &b); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	for _, want := range append(keys(all), "-rounds", "-time", "-workers", "-contenders", "-disk-delay", "-json", "-hung") {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the help does not tell of %s", want)
		}
	}
}

// What is chosen comes with what it is compared with.
func TestChosenContenders(t *testing.T) {
	for _, c := range []struct{ pattern, want string }{
		{"^server$", "manual server"},
		{"^pg-(server|marker)$", "pg pg-marker pg-server"},
		{"^(three|alone-three)$", "manual three alone-server alone-three"},
		{"mariadb-embedded", "mariadb mariadb-embedded"},
		{"", strings.Join(keys(all), " ")},
	} {
		got, err := choose(c.pattern)
		if err != nil || strings.Join(keys(got), " ") != c.want {
			t.Errorf("%s: %v, %v, want %s", c.pattern, keys(got), err, c.want)
		}
	}
}
