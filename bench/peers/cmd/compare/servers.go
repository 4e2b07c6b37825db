package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
)

const etcdModule = "go.etcd.io/etcd/server/v3"

// programs are the two servers as built.
type programs struct {
	etcd, txmgr string
	versions    map[string]string
}

func build(ctx context.Context, dir string) (p programs, err error) {
	p = programs{etcd: filepath.Join(dir, "etcd"), txmgr: filepath.Join(dir, "txmgr"), versions: map[string]string{"txmgr": "checkout"}}
	version, err := output(ctx, "go", "list", "-m", "-f", "{{.Version}}", etcdModule)
	if err != nil {
		return p, err
	}
	p.versions["etcd"] = version
	root, err := output(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/txmgr/txmgr")
	if err != nil {
		return p, err
	}
	if _, err = output(ctx, "go", "build", "-trimpath", "-o", p.etcd, etcdModule); err != nil {
		return p, err
	}
	// In its own module, and so with the dependencies that it is shipped with.
	_, err = output(ctx, "go", "-C", root, "build", "-trimpath", "-o", p.txmgr, "./cmd/txmgr")
	return p, err
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

// servers are the two processes and where they listen.
type servers struct {
	etcd, txmgr               *rig.Process
	etcdAddress, txmgrAddress string
}

// start gives what has been started even when it fails.
func start(ctx context.Context, dir string, p programs) (s servers, err error) {
	for _, f := range []func(context.Context, string, programs) error{s.startEtcd, s.startTxmgr} {
		if err := f(ctx, dir, p); err != nil {
			return s, err
		}
	}
	return s, nil
}

// startEtcd starts a cluster of one with etcd's defaults.
func (s *servers) startEtcd(ctx context.Context, dir string, p programs) error {
	client, err := rig.FreePort()
	if err != nil {
		return err
	}
	peer, err := rig.FreePort()
	if err != nil {
		return err
	}
	s.etcdAddress = fmt.Sprintf("http://127.0.0.1:%d", client)
	peers := fmt.Sprintf("http://127.0.0.1:%d", peer)
	s.etcd, err = rig.Start(dir, p.etcd, "--name", "one", "--data-dir", filepath.Join(dir, "etcd.data"), "--log-level", "error",
		"--listen-client-urls", s.etcdAddress, "--advertise-client-urls", s.etcdAddress,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "one="+peers)
	if err != nil {
		return err
	}
	return s.etcd.Ready(ctx, func(ctx context.Context) error { return healthy(ctx, s.etcdAddress+"/health") })
}

// startTxmgr starts a cluster of one with txmgr's defaults.
func (s *servers) startTxmgr(ctx context.Context, dir string, p programs) (err error) {
	file := filepath.Join(dir, "txmgr.address")
	s.txmgr, err = rig.Start(dir, p.txmgr, "server", "--data-dir", filepath.Join(dir, "txmgr.data"), "--log-level", "warn",
		"--listen", "127.0.0.1:0", "--address-file", file)
	if err != nil {
		return err
	}
	return s.txmgr.Ready(ctx, func(ctx context.Context) error {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		s.txmgrAddress = strings.TrimSpace(string(b))
		return healthy(ctx, s.txmgrAddress+"/readyz")
	})
}

func healthy(ctx context.Context, url string) error {
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

func (s *servers) stop() error {
	var errs []error
	for _, p := range []*rig.Process{s.etcd, s.txmgr} {
		if p != nil {
			errs = append(errs, p.Stop())
		}
	}
	return errors.Join(errs...)
}
