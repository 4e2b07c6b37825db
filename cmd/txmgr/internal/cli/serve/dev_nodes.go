package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/internal/asynclog"
	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/txn"
)

const (
	maxDevNodes = 7
	// devPortStride is the distance between the ports of two coordinators.
	devPortStride = 10
	// devFormTimeout bounds the bootstrap of the cluster.
	devFormTimeout = time.Minute
)

// devNode is one coordinator of a throw-away cluster.
type devNode struct {
	name     string
	listener net.Listener
	raft     string
	node     *node.Node
	server   *server.Server
}

func (d *devNode) address() string { return "http://" + d.listener.Addr().String() }

// devCluster runs several coordinators in this process until ctx ends.
func devCluster(ctx context.Context, a *cli.App, o serverOptions, log *slog.Logger, size int, data string, keep bool) (err error) {
	log = asynclog.Wrap(slog.New(muteHandler{log.Handler(), ctx}))
	closing := new(closers)
	defer func() { err = closing.close(err) }()
	nodes, err := listenDevPorts(o, size, data, closing)
	if err != nil {
		return err
	}
	closing.add("the coordinators", func() error { return closeDevNodes(nodes) })
	if err := openDevNodes(ctx, o, nodes, data, log); err != nil {
		return err
	}
	serving, stop := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer func() {
		stop(nil)
		running.Wait()
		if cause := context.Cause(serving); cause != nil && ctx.Err() == nil && !errors.Is(cause, context.Canceled) {
			err = errors.Join(err, cause)
		}
	}()
	for _, d := range nodes {
		running.Go(func() { stop(d.server.Serve(serving, d.listener)) }) // the first one that ends stops all
	}
	if err := seedDemoCluster(serving, nodes, data); err != nil {
		return err
	}
	var addresses []string
	for _, d := range nodes {
		addresses = append(addresses, d.address())
	}
	if err := printClusterBanner(a, addresses, data, keep); err != nil {
		return err
	}
	if o.addressFile != "" {
		if err := writeAddress(o.addressFile, strings.Join(addresses, ",")); err != nil {
			return err
		}
		closing.add("the address file", removeFunc(o.addressFile))
	}
	<-serving.Done()
	return nil
}

// listenDevPorts opens the ports of all coordinators, so that a port in use is reported before
// anything is written.
func listenDevPorts(o serverOptions, size int, data string, closing *closers) ([]*devNode, error) {
	host, port, err := net.SplitHostPort(o.listen)
	first, perr := strconv.ParseUint(port, 10, 16)
	if err != nil || perr != nil {
		return nil, output.Usage("write it like 127.0.0.1:7460", "--listen is %q", o.listen)
	}
	raft, err := devRaftAddresses(data, host, int(first), size)
	if err != nil {
		return nil, err
	}
	var nodes []*devNode
	for i := range size {
		one := o
		if first > 0 {
			one.listen = net.JoinHostPort(host, strconv.Itoa(int(first)+i*devPortStride))
		}
		l, err := one.openListener()
		if err != nil {
			return nil, err
		}
		closing.add("a port", l.Close)
		nodes = append(nodes, &devNode{name: "n" + strconv.Itoa(i+1), listener: l, raft: raft[i]})
	}
	return nodes, nil
}

// devRaftAddresses are the raft addresses of the coordinators. If the data was kept they are those
// of the run before: not all nodes of a cluster can change their address at once.
func devRaftAddresses(data, host string, first, size int) ([]string, error) {
	file := filepath.Join(data, "raft-addresses")
	old, err := os.ReadFile(file)
	if err == nil {
		kept := strings.Fields(string(old))
		if len(kept) != size {
			return nil, output.Usage(fmt.Sprintf("--nodes %d, or another --data-dir", len(kept)), "the data in %s is that of %d coordinators", data, len(kept))
		}
		return kept, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(data, "coordinator")); err == nil {
		return nil, output.Usage("leave --nodes out, or give another --data-dir", "the data in %s is that of a single coordinator", data)
	}
	var addresses []string
	for i := range size {
		address := net.JoinHostPort(host, strconv.Itoa(first+i*devPortStride+1))
		if first == 0 {
			// It is free now, and almost certainly still free when the node listens on it.
			l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
			if err != nil {
				return nil, err
			}
			defer func() { _ = l.Close() }() // closed after the loop, so that no port is chosen twice
			address = l.Addr().String()
		}
		addresses = append(addresses, address)
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	return addresses, os.WriteFile(file, []byte(strings.Join(addresses, "\n")+"\n"), 0o600)
}

// closeDevNodes closes all nodes at once: the last one would otherwise try to reach the others.
func closeDevNodes(nodes []*devNode) error {
	errs := make([]error, len(nodes))
	var running sync.WaitGroup
	for i, d := range nodes {
		if d.node != nil {
			running.Go(func() { errs[i] = d.node.Close() })
		}
	}
	running.Wait()
	return errors.Join(errs...)
}

// muteHandler discards log records once its context is done: what the coordinators report about
// each other while all of them shut down is of no interest.
type muteHandler struct {
	slog.Handler
	ctx context.Context
}

// Enabled implements [slog.Handler].
func (h muteHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return h.ctx.Err() == nil && h.Handler.Enabled(ctx, l)
}

// WithAttrs implements [slog.Handler].
func (h muteHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return muteHandler{h.Handler.WithAttrs(attrs), h.ctx}
}

// WithGroup implements [slog.Handler].
func (h muteHandler) WithGroup(name string) slog.Handler {
	return muteHandler{h.Handler.WithGroup(name), h.ctx}
}

func openDevNodes(ctx context.Context, o serverOptions, nodes []*devNode, data string, log *slog.Logger) error {
	var join []string
	for _, d := range nodes {
		join = append(join, d.raft)
	}
	for _, d := range nodes {
		one := o
		one.dataDir = filepath.Join(data, d.name)
		log := log.With("node", d.name)
		conf, err := one.nodeConfig(log)
		if err != nil {
			return err
		}
		conf.Cluster = &node.Cluster{Listen: d.raft, API: d.address(), Name: d.name, Expect: len(nodes), Join: join}
		if d.node, err = node.Open(ctx, conf); err != nil {
			return dataDirFailure(one.dataDir, err)
		}
		if d.server, err = server.New(one.serverConfig(log), d.node); err != nil {
			return err
		}
	}
	return nil
}

// seedDemoCluster waits for a leader and registers the databases there.
func seedDemoCluster(ctx context.Context, nodes []*devNode, data string) error {
	ctx, cancel := context.WithTimeout(ctx, devFormTimeout)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	last := fmt.Errorf("%w: no leader", txn.ErrUnavailable)
	for {
		for _, d := range nodes {
			if _, here := d.node.Leader(); !here {
				continue
			}
			if last = seedDemoData(ctx, d.node, data); last == nil || !errors.Is(last, txn.ErrUnavailable) {
				return last
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("form a cluster: %w: %w", context.Cause(ctx), last)
		}
	}
}
