package threenodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/txn/admin"
)

// Txmgr is a cluster of three processes of txmgr server.
type Txmgr struct {
	dir, program string
	apis, rafts  []string // addresses, without a scheme
	processes    []*rig.Process
	clients      []*client.Client // one for each process
}

// StartTxmgr starts the processes below dir, and waits until all three vote. It returns what has
// been started even if it fails.
func StartTxmgr(ctx context.Context, dir, program string) (*Txmgr, error) {
	t := &Txmgr{dir: dir, program: program, processes: make([]*rig.Process, len(names))}
	for range names {
		api, raft, err := twoPorts()
		if err != nil {
			return t, err
		}
		c, err := client.Open(client.Config{Address: "http://" + api, Unary: true, RequestTimeout: 5 * time.Second, FailFast: true})
		if err != nil {
			return t, err
		}
		t.apis, t.rafts, t.clients = append(t.apis, api), append(t.rafts, raft), append(t.clients, c)
	}
	for i := range names {
		if err := t.start(i); err != nil {
			return t, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for i := range names {
		if err := t.ready(ctx, i); err != nil {
			return t, err
		}
	}
	return t, t.complete(ctx)
}

// start starts one process; with an existing directory it continues with its data.
func (t *Txmgr) start(i int) error {
	home := filepath.Join(t.dir, "txmgr-"+names[i])
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	p, err := rig.Start(home, t.program, "server", "--data-dir", filepath.Join(home, "data"), "--log-level", "warn", "--name", names[i],
		"--listen", t.apis[i], "--raft-listen", t.rafts[i], "--bootstrap-expect", fmt.Sprint(len(names)), "--join", strings.Join(t.rafts, ","))
	if err == nil {
		t.processes[i] = p
	}
	return err
}

func (t *Txmgr) ready(ctx context.Context, i int) error {
	return t.processes[i].Ready(ctx, func(ctx context.Context) error { return rig.Healthy(ctx, "http://"+t.apis[i]+"/readyz") })
}

// complete waits until the leader has three voters, all of whose URLs are known.
func (t *Txmgr) complete(ctx context.Context) error {
	_, err := poll(ctx, func() (int, error) {
		i, s, err := t.leading(ctx)
		if err != nil {
			return 0, err
		}
		voters := 0
		for _, m := range s.Members {
			if m.Voter && m.API != "" {
				voters++
			}
		}
		if voters != len(names) {
			return 0, fmt.Errorf("%d of %d nodes vote", voters, len(names))
		}
		return i, nil
	})
	return err
}

// Restart starts a process that was killed, and returns at once.
func (t *Txmgr) Restart(i int) error { return t.start(i) }

// Kill kills a process.
func (t *Txmgr) Kill(i int) error { return t.processes[i].Kill() }

// Ready waits until a process reports that it is ready.
func (t *Txmgr) Ready(ctx context.Context, i int) error { return t.ready(ctx, i) }

// Status is the status of one node. Its timeout is short, and the node may be down.
func (t *Txmgr) Status(ctx context.Context, i int) (admin.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return t.clients[i].Admin().Status(ctx)
}

// Leader returns the leader and its status.
func (t *Txmgr) Leader(ctx context.Context) (int, admin.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	type answer struct {
		i int
		s admin.Status
	}
	a, err := poll(ctx, func() (a answer, err error) {
		a.i, a.s, err = t.leading(ctx)
		return a, err
	})
	return a.i, a.s, err
}

// leading calls all three; of two that report that they lead, the one with the higher term does.
func (t *Txmgr) leading(ctx context.Context) (leader int, of admin.Status, err error) {
	leader = -1
	var errs []error
	for i := range names {
		s, err := t.Status(ctx, i)
		errs = append(errs, err)
		if err == nil && s.Leader && (leader < 0 || s.Term > of.Term) {
			leader, of = i, s
		}
	}
	if leader < 0 {
		return leader, of, fmt.Errorf("no node of txmgr leads: %w", errors.Join(errs...))
	}
	return leader, of, nil
}

// Nodes is the number of nodes.
func (t *Txmgr) Nodes() int { return len(names) }

// URL is the URL of one process.
func (t *Txmgr) URL(i int) string { return "http://" + t.apis[i] }

// URLs are all of them, separated by commas, as a client is configured.
func (t *Txmgr) URLs() string { return "http://" + strings.Join(t.apis, ",http://") }

// CPU is the processor time of all three so far.
func (t *Txmgr) CPU() (time.Duration, error) { return cpu(t.processes) }

// Stop stops the processes.
func (t *Txmgr) Stop() error {
	var errs []error
	for _, c := range t.clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(append(errs, stop(t.processes)...)...)
}
