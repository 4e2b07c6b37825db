package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
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

// manager is the part of a coordinator that this program needs.
type manager interface {
	txn.Namer
	Admin() admin.Calls
	Close() error
}

// register registers the databases with a coordinator.
func register(ctx context.Context, m manager, p *pools) error {
	return errors.Join(
		m.Admin().AddParticipant(ctx, admin.Participant{Name: bankName, Kind: postgres.Kind, Settings: map[string]string{"dsn": p.pgDSN}}, "", ""),
		m.Admin().AddParticipant(ctx, admin.Participant{Name: stockName, Kind: mariadb.Kind, Settings: map[string]string{"dsn": p.myDSN}}, "", ""),
	)
}

// embed opens a coordinator in this process, with the default settings.
func embed(ctx context.Context, dir string) (*node.Node, error) {
	level := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})
	return node.Open(ctx, node.Config{
		DataDir: dir, Logger: slog.New(level),
		Drivers: map[string]participant.Driver{postgres.Kind: postgres.Driver, mariadb.Kind: mariadb.Driver},
	})
}

// build builds the program of the checkout, in its own module: with the dependencies of a release.
func build(ctx context.Context, dir string) (program string, err error) {
	program = filepath.Join(dir, "txmgr")
	root, err := output(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/txmgr/txmgr")
	if err != nil {
		return "", err
	}
	_, err = output(ctx, "go", "-C", root, "build", "-trimpath", "-o", program, "./cmd/txmgr")
	return program, err
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w (run it in the module bench/peers)\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// server is a coordinator in a process of its own, and a client of it.
type server struct {
	*client.Client
	process *rig.Process
}

// serve starts a server with the default settings, and a new data directory.
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
		return healthy(ctx, address+"/readyz")
	})
	if err == nil {
		s.Client, err = client.Dial(address)
	}
	if err != nil {
		return nil, errors.Join(err, s.process.Stop())
	}
	return s, nil
}

func healthy(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	if err := res.Body.Close(); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, res.Status)
	}
	return nil
}

// Close closes the client, and stops the process.
func (s *server) Close() error { return errors.Join(s.Client.Close(), s.process.Stop()) }
