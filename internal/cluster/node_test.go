package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/txn/admin"
)

// apiPort is the default.
const apiPort = "7460"

// node is one server: it can be killed, suspended and restarted. Its start does not wait until it
// serves.
type node struct {
	*rig.Process
	t    *testing.T
	net  *network
	n    int
	dir  string   // its data directory
	args []string // of the server
	m    *client.Client

	mu     sync.Mutex // guards output
	output bytes.Buffer
}

func newNode(t *testing.T, net *network, i int) *node {
	n := &node{t: t, net: net, n: i}
	n.Process = &rig.Process{
		Name: fmt.Sprintf("n%d", i+1), Output: n, OnLine: func(line string) { fmt.Fprintln(n, line) }, OnFailure: t.Errorf,
	}
	return n
}

// wrap passes the node's command to another program as arguments.
func (n *node) wrap(by ...string) {
	argv := append(n.net.execPrefix(n.n), by...)
	argv = append(append(argv, program, "server"), n.args...)
	n.Path, n.Args = argv[0], argv[1:]
}

func (n *node) api() string { return "https://" + n.net.address(n.n) + ":" + apiPort }

// Write receives the output of the node.
func (n *node) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.output.Len() > 4<<20 {
		n.output.Next(2 << 20)
	}
	return n.output.Write(p)
}

// outputTail is the end of the node's output.
func (n *node) outputTail(most int) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.output.Bytes()
	return string(b[max(0, len(b)-most):])
}

// up reports whether the process runs.
func (n *node) up() bool { return n.PID() != 0 }

// status returns the status of the node.
func (n *node) status(ctx context.Context) (admin.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return n.m.Admin().Status(ctx)
}

// saveOutput writes its output to a file.
func (n *node) saveOutput(dir string) {
	if dir == "" {
		return
	}
	name := strings.ReplaceAll(n.t.Name(), "/", "_") + "-" + n.Name + ".log"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(n.outputTail(8<<20)), 0o644); err != nil {
		n.t.Log(err)
	}
}
