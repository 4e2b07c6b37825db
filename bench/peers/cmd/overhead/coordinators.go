package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
	"github.com/txmgr/txmgr/bench/peers/internal/threenodes"
	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// The participants, as registered with every coordinator.
const (
	bankName  = "bank"  // in PostgreSQL
	stockName = "stock" // in MariaDB
)

// coordinator is a coordinator, and what is measured of it.
type coordinator interface {
	txn.Namer
	Admin() admin.Calls
	Close() error

	// cpu is the processor time of its processes so far; zero if it runs in this one.
	cpu() (time.Duration, error)
	// statuses are those of all its nodes.
	statuses(ctx context.Context) ([]admin.Status, error)
}

// startCoordinator starts one with the default settings and a new data directory. It returns what it
// has started even if it fails.
func startCoordinator(ctx context.Context, where place, dir, program string) (coordinator, error) {
	dir = filepath.Join(dir, string(where))
	switch where {
	case embedded:
		n, err := embed(ctx, dir)
		if err != nil {
			return nil, err
		}
		return embeddedNode{n}, nil
	case cluster:
		return startCluster(ctx, program, dir)
	}
	s, err := serve(ctx, program, dir)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// register registers the databases with a coordinator.
func register(ctx context.Context, c interface{ Admin() admin.Calls }, p *pools) error {
	return errors.Join(
		c.Admin().AddParticipant(ctx, admin.Participant{Name: bankName, Kind: postgres.Kind, Settings: map[string]string{"dsn": p.pgDSN}}, "", ""),
		c.Admin().AddParticipant(ctx, admin.Participant{Name: stockName, Kind: mariadb.Kind, Settings: map[string]string{"dsn": p.myDSN}}, "", ""),
		c.Admin().TestParticipant(ctx, bankName), // it creates the marker table, which otherwise takes seconds
		c.Admin().TestParticipant(ctx, stockName),
	)
}

// embeddedNode is a coordinator in this process.
type embeddedNode struct{ *node.Node }

func embed(ctx context.Context, dir string) (*node.Node, error) {
	level := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})
	return node.Open(ctx, node.Config{
		DataDir: dir, Logger: slog.New(level),
		Drivers: map[string]participant.Driver{postgres.Kind: postgres.Driver, mariadb.Kind: mariadb.Driver},
	})
}

func (embeddedNode) cpu() (time.Duration, error) { return 0, nil }

func (n embeddedNode) statuses(ctx context.Context) ([]admin.Status, error) { return statusOf(ctx, n) }

// server is a coordinator in a process of its own, and a client of it.
type server struct {
	*client.Client
	process *rig.Process
}

func serve(ctx context.Context, program, dir string) (s *server, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "address")
	s = new(server)
	s.process, err = rig.Start(dir, program, "server", "--data-dir", filepath.Join(dir, "data"), "--log-level", "warn",
		"--listen", "127.0.0.1:0", "--address-file", file)
	if err != nil {
		return nil, err
	}
	var address string
	err = s.process.Ready(ctx, func(ctx context.Context) error {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		address = strings.TrimSpace(string(b))
		return rig.Healthy(ctx, address+"/readyz")
	})
	if err == nil {
		s.Client, err = client.Dial(address)
	}
	if err != nil {
		return nil, errors.Join(err, s.process.Stop())
	}
	return s, nil
}

func (s *server) cpu() (time.Duration, error) { return s.process.CPU() }

func (s *server) statuses(ctx context.Context) ([]admin.Status, error) { return statusOf(ctx, s) }

// Close closes the client, and stops the process.
func (s *server) Close() error { return errors.Join(s.Client.Close(), s.process.Stop()) }

// threeServers is a cluster of three processes, and a client of it.
type threeServers struct {
	*client.Client
	nodes *threenodes.Txmgr
}

func startCluster(ctx context.Context, program, dir string) (coordinator, error) {
	nodes, err := threenodes.StartTxmgr(ctx, dir, program)
	if err != nil {
		return nil, errors.Join(err, nodes.Stop())
	}
	c, err := client.Dial(nodes.URLs())
	if err != nil {
		return nil, errors.Join(err, nodes.Stop())
	}
	return &threeServers{Client: c, nodes: nodes}, nil
}

func (t *threeServers) cpu() (time.Duration, error) { return t.nodes.CPU() }

func (t *threeServers) statuses(ctx context.Context) (all []admin.Status, err error) {
	for i := range t.nodes.Nodes() {
		s, err := t.nodes.Status(ctx, i)
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Close closes the client, and stops the processes.
func (t *threeServers) Close() error { return errors.Join(t.Client.Close(), t.nodes.Stop()) }

func statusOf(ctx context.Context, c interface{ Admin() admin.Calls }) ([]admin.Status, error) {
	s, err := c.Admin().Status(ctx)
	return []admin.Status{s}, err
}
