package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/pairs"
	"github.com/txmgr/txmgr/bench/peers/internal/rig"
	"github.com/txmgr/txmgr/client"
)

// key is one way to make pairs, with a number of callers.
type key struct {
	Way     string `json:"way"`
	Callers int    `json:"callers"`
}

const (
	etcdWay   = "etcd put+delete"
	jsonWay   = "txmgr JSON over HTTP"
	unaryWay  = "txmgr SDK, unary"
	streamWay = "txmgr SDK, stream"
	engineWay = "txmgr from within"
)

// ways are all ways, in the order of the table, each with its numbers of callers.
var ways = []struct {
	way     string
	callers []int
}{
	{etcdWay, []int{64, 256}},
	{jsonWay, []int{64, 256}},
	{unaryWay, []int{64, 256}},
	{streamWay, []int{64, 256, 1024}},
	{engineWay, []int{256, 1024, 2048, 4096}},
}

// contenders returns the contenders whose way contains one of the words, or all.
func contenders(words []string) (out []key) {
	for _, w := range ways {
		if !slices.ContainsFunc(words, func(word string) bool { return strings.Contains(w.way, word) }) {
			continue
		}
		for _, callers := range w.callers {
			out = append(out, key{w.way, callers})
		}
	}
	return out
}

// asks reports whether one of the contenders uses one of the ways.
func asks(keys []key, ways ...string) bool {
	return slices.ContainsFunc(keys, func(k key) bool { return slices.Contains(ways, k.Way) })
}

// measure is one contender in one round.
type measure struct {
	rig.Sample
	ServerCPU time.Duration `json:"server_cpu_ns"` // per pair, of all three processes
	ClientCPU time.Duration `json:"client_cpu_ns"` // of the callers; zero from within, where it is part of the leader's
	Commands  float64       `json:"commands_per_entry,omitempty"`
}

// errLeaderChanged means that the leader changed during a measurement.
var errLeaderChanged = errors.New("another node leads than did before")

// round measures one contender once.
func (s *contestants) round(ctx context.Context, k key, value int, span time.Duration) (m measure, err error) {
	if k.Way == engineWay {
		p, err := s.inprocess.Pairs(ctx, k.Callers, span)
		if err != nil {
			return m, err
		}
		if p.LeaderMoved {
			return m, errLeaderChanged
		}
		return measure{Sample: p.Sample, ServerCPU: p.LeaderCPU + p.FollowerCPU, Commands: float64(p.Commands) / float64(max(p.Entries, 1))}, nil
	}
	before, err := s.readLeader(ctx, k.Way)
	if err != nil {
		return m, err
	}
	pair, closer, err := s.callers(ctx, k, before.leader, strings.Repeat("v", value))
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, closer.Close()) }()
	m, failed := s.load(ctx, k, pair, span)
	after, err := s.readLeader(ctx, k.Way)
	if err == nil && after.leader != before.leader {
		return m, errLeaderChanged
	}
	if entries := after.entries - before.entries; entries > 0 {
		m.Commands = float64(after.commands-before.commands) / float64(entries)
	}
	return m, errors.Join(failed, err)
}

// leaderState is the leader and its counters; etcd has none.
type leaderState struct {
	leader            string
	commands, entries uint64
}

func (s *contestants) readLeader(ctx context.Context, way string) (of leaderState, err error) {
	if way == etcdWay {
		of.leader, err = s.etcd.Leader(ctx)
		return of, err
	}
	i, status, err := s.txmgr.Leader(ctx)
	if err != nil {
		return of, err
	}
	return leaderState{s.txmgr.URL(i), status.Commands, status.Entries}, nil
}

func (s *contestants) callers(ctx context.Context, k key, leader, value string) (pairs.Func, io.Closer, error) {
	switch k.Way {
	case etcdWay:
		return pairs.Etcd(ctx, leader, value)
	case jsonWay:
		pair, closer := pairs.JSON(leader, value, k.Callers)
		return pair, closer, nil
	default:
		return pairs.SDK(client.Config{Address: s.txmgr.URLs(), Unary: k.Way == unaryWay}, value)
	}
}

func (s *contestants) load(ctx context.Context, k key, pair pairs.Func, span time.Duration) (m measure, err error) {
	cpu := s.cpu(k.Way)
	var server, own [2]time.Duration
	var failed error
	n := 0
	meter := func() {
		var errs [2]error
		server[n], errs[0] = cpu()
		own[n], errs[1] = rig.OwnCPU()
		failed = errors.Join(failed, errs[0], errs[1])
		n++
	}
	m.Sample, err = rig.Load{Callers: k.Callers, Warm: span / 5, Span: span, Pair: pair, Meter: meter}.Run(ctx)
	if err = errors.Join(err, failed); err != nil {
		return m, err
	}
	m.ServerCPU = (server[1] - server[0]) / time.Duration(m.Pairs)
	m.ClientCPU = (own[1] - own[0]) / time.Duration(m.Pairs)
	return m, nil
}

func (s *contestants) cpu(way string) func() (time.Duration, error) {
	if way == etcdWay {
		return s.etcd.CPU
	}
	return s.txmgr.CPU
}
