package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/txmgr/txmgr/bench/peers/internal/pairs"
	"github.com/txmgr/txmgr/bench/peers/internal/rig"
	"github.com/txmgr/txmgr/client"
)

// contender is one way to make pairs, with a number of callers.
type contender struct {
	Name    string `json:"name"`
	Way     string `json:"way"`
	Callers int    `json:"callers"`

	server *rig.Process
	pair   func(ctx context.Context, caller int) error
	closer io.Closer
}

// key names a contender in goals: the way, and how many callers.
type key struct {
	way     string
	callers int
}

const (
	etcdWay   = "etcd"   // put and delete, 8 connections
	jsonWay   = "json"   // plain net/http, possible in any language
	unaryWay  = "unary"  // the SDK, a request for each call
	streamWay = "stream" // the SDK with its defaults
)

// contenders opens the clients of all contenders. It returns what it has opened even if it fails.
func (s *servers) contenders(ctx context.Context, value int) ([]*contender, error) {
	text := strings.Repeat("v", value)
	var out []*contender
	for _, k := range []key{{etcdWay, 64}, {etcdWay, 256}, {jsonWay, 64}, {unaryWay, 64}, {streamWay, 64}, {streamWay, 256}, {streamWay, 1024}} {
		c := &contender{Way: k.way, Callers: k.callers, server: s.txmgr}
		var err error
		switch k.way {
		case etcdWay:
			c.Name, c.server = "etcd put+delete", s.etcd
			c.pair, c.closer, err = pairs.Etcd(ctx, s.etcdAddress, text)
		case jsonWay:
			c.Name = "txmgr JSON over HTTP"
			c.pair, c.closer = pairs.JSON(s.txmgrAddress, text, k.callers)
		case unaryWay:
			c.Name = "txmgr SDK, unary"
			c.pair, c.closer, err = pairs.SDK(client.Config{Address: s.txmgrAddress, Unary: true}, text)
		case streamWay:
			c.Name = "txmgr SDK, stream"
			c.pair, c.closer, err = pairs.SDK(client.Config{Address: s.txmgrAddress}, text)
		}
		if err != nil {
			return out, err
		}
		out = append(out, c)
	}
	return out, nil
}

func closeAll(cs []*contender) error {
	var errs []error
	for _, c := range cs {
		errs = append(errs, c.closer.Close())
	}
	return errors.Join(errs...)
}
