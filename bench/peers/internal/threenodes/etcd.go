package threenodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
)

// Etcd is a cluster of three processes of etcd.
type Etcd struct {
	processes []*rig.Process
	urls      []string
	client    *clientv3.Client // to ask for the leader
}

// StartEtcd starts the processes below dir, and waits until they serve. It returns what has been
// started even if it fails.
func StartEtcd(ctx context.Context, dir, program string) (*Etcd, error) {
	e := new(Etcd)
	var peers, initial []string
	for _, name := range names {
		client, peer, err := twoPorts()
		if err != nil {
			return e, err
		}
		e.urls = append(e.urls, "http://"+client)
		peers = append(peers, "http://"+peer)
		initial = append(initial, name+"=http://"+peer)
	}
	for i, name := range names {
		home := filepath.Join(dir, "etcd-"+name)
		if err := os.MkdirAll(home, 0o700); err != nil {
			return e, err
		}
		p, err := rig.Start(home, program, "--name", name, "--data-dir", filepath.Join(home, "data"), "--log-level", "error",
			"--listen-client-urls", e.urls[i], "--advertise-client-urls", e.urls[i],
			"--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i], "--initial-cluster", strings.Join(initial, ","))
		if err != nil {
			return e, err
		}
		e.processes = append(e.processes, p)
	}
	for i, p := range e.processes {
		if err := p.Ready(ctx, func(ctx context.Context) error { return rig.Healthy(ctx, e.urls[i]+"/health") }); err != nil {
			return e, err
		}
	}
	var err error
	e.client, err = clientv3.New(clientv3.Config{Context: ctx, Endpoints: e.urls, DialTimeout: 10 * time.Second})
	return e, err
}

// Leader is the URL of the leader.
func (e *Etcd) Leader(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return poll(ctx, func() (string, error) {
		var errs []error
		for _, url := range e.urls {
			s, err := e.client.Status(ctx, url)
			if err == nil && s.Header.MemberId == s.Leader {
				return url, nil
			}
			errs = append(errs, err)
		}
		return "", fmt.Errorf("no process of etcd leads: %w", errors.Join(errs...))
	})
}

// CPU is the processor time of all three so far.
func (e *Etcd) CPU() (time.Duration, error) { return cpu(e.processes) }

// Stop stops the processes.
func (e *Etcd) Stop() error {
	var errs []error
	if e.client != nil {
		errs = append(errs, e.client.Close())
	}
	return errors.Join(append(errs, stop(e.processes)...)...)
}
