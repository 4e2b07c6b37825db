package rig

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
)

const etcdModule = "go.etcd.io/etcd/server/v3"

// Programs are the two servers as built.
type Programs struct {
	Etcd, Txmgr string            // paths
	Versions    map[string]string // by name
}

// Build builds both servers in dir: etcd from the version in go.mod, txmgr from the checkout. It is
// for programs that run in the module bench/peers.
func Build(ctx context.Context, dir string) (p Programs, err error) {
	p.Versions = map[string]string{"txmgr": "checkout"}
	if p.Etcd, p.Versions["etcd"], err = BuildEtcd(ctx, dir); err != nil {
		return p, err
	}
	p.Txmgr, err = BuildTxmgr(ctx, dir)
	return p, err
}

// BuildEtcd builds etcd alone.
func BuildEtcd(ctx context.Context, dir string) (program, version string, err error) {
	if version, err = output(ctx, "go", "list", "-m", "-f", "{{.Version}}", etcdModule); err != nil {
		return "", "", err
	}
	program = filepath.Join(dir, "etcd")
	_, err = output(ctx, "go", "build", "-trimpath", "-o", program, etcdModule)
	return program, version, err
}

// BuildTxmgr builds txmgr alone.
func BuildTxmgr(ctx context.Context, dir string) (program string, err error) {
	root, err := output(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/txmgr/txmgr")
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, "txmgr")
	// In its own module, and so with the dependencies of a release.
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

// Healthy returns nil if the URL answers 200.
func Healthy(ctx context.Context, url string) error {
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
