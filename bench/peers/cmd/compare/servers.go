package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
)

// servers are the two processes and their addresses.
type servers struct {
	etcd, txmgr               *rig.Process
	etcdAddress, txmgrAddress string
}

// start returns what has been started even if it fails.
func start(ctx context.Context, dir string, p rig.Programs) (s servers, err error) {
	for _, f := range []func(context.Context, string, rig.Programs) error{s.startEtcd, s.startTxmgr} {
		if err := f(ctx, dir, p); err != nil {
			return s, err
		}
	}
	return s, nil
}

// startEtcd starts a cluster of one with etcd's defaults.
func (s *servers) startEtcd(ctx context.Context, dir string, p rig.Programs) error {
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
	s.etcd, err = rig.Start(dir, p.Etcd, "--name", "one", "--data-dir", filepath.Join(dir, "etcd.data"), "--log-level", "error",
		"--listen-client-urls", s.etcdAddress, "--advertise-client-urls", s.etcdAddress,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "one="+peers)
	if err != nil {
		return err
	}
	return s.etcd.Ready(ctx, func(ctx context.Context) error { return rig.Healthy(ctx, s.etcdAddress+"/health") })
}

// startTxmgr starts a cluster of one with txmgr's defaults.
func (s *servers) startTxmgr(ctx context.Context, dir string, p rig.Programs) (err error) {
	file := filepath.Join(dir, "txmgr.address")
	s.txmgr, err = rig.Start(dir, p.Txmgr, "server", "--data-dir", filepath.Join(dir, "txmgr.data"), "--log-level", "warn",
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
		return rig.Healthy(ctx, s.txmgrAddress+"/readyz")
	})
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
